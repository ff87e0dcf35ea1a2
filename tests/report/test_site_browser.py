"""The committed page of results in a real browser: filter, sort, open, link, copy, phone, dark."""

import shutil
from pathlib import Path

import pytest
from processes import ROOT

pytestmark = pytest.mark.browser

PAGE = (ROOT / "results" / "site" / "index.html").as_uri()
AXE = ROOT / "tests" / "support" / "axe" / "axe.min.js"
CELL = "mteb.1-12-75/minilm/sts-b"
SCORE = "simcse-sup-bert-mini.mean/sts12.senteval/spearman.all"
UNFOLD = "document.querySelectorAll('details').forEach(part => { part.open = true })"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
WIDTH = "document.documentElement.scrollWidth"
PHONE = {"width": 400, "height": 800}
PAPER = {"width": 703, "height": 1000}


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: make setup")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Opens the page; whatever its console says, or it asks of a network, fails the test."""
    contexts, said = [], []

    def opened(fragment="", scripts=True, **look):
        context = browser.new_context(
            java_script_enabled=scripts,
            permissions=["clipboard-read", "clipboard-write"],
            **look,
        )
        page = context.new_page()
        page.set_default_timeout(15_000)
        contexts.append(context)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda asked: said.append(asked.url))
        page.goto(PAGE + fragment)
        said[:] = [text for text in said if not text.startswith(("file:", "data:"))]
        if scripts:
            page.evaluate(UNFOLD)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [text for text in said if not text.startswith(("file:", "data:"))] == []


def rows(page):
    """The methods that the leaderboard shows, in order."""
    found = page.locator(".board:not([hidden]) tbody tr th").all_inner_texts()
    return [text.removesuffix(" †") for text in found]


@pytest.mark.slow
def test_filters_narrow_the_leaderboard_stand_in_the_hash_and_choose_what_is_saved(
    visit,
):
    page = visit()
    every = len(rows(page))
    page.select_option("[name=encoder]", "bert-mini")
    assert 0 < len(rows(page)) < every
    assert {name.split(".")[0] for name in rows(page)} == {"bert-mini"}
    page.select_option("[name=post]", "whitening")
    page.select_option("[name=fit]", "yes")
    page.fill("[name=q]", "first-last")
    shown = rows(page)
    assert shown
    for part in ("first-last", "+whitening", "@target"):
        assert all(part in name for name in shown)
    again = visit(page.url.partition("index.html")[2])
    assert rows(again) == shown
    with page.expect_download() as saved:
        page.click("#csv")
    lines = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"method","STS12"')
    assert len(lines) == 1 + len(shown)
    page.click("text=Show all")
    page.wait_for_function("!location.hash.includes('encoder')")
    assert len(rows(page)) == every


def test_a_published_number_opens_with_all_that_is_known_of_it(visit):
    page = visit()
    assert page.locator("#papers a[href*='arxiv.org']").count() > 20
    assert page.locator("#reproduced img").count() == 1
    page.locator(f'main a[href="#cell={CELL}"]').first.click()
    dialog = page.locator("dialog")
    dialog.wait_for(state="visible")  # the page hears of its new address a moment later
    shown = dialog.inner_text()
    for text in ("82.03", "exact", "minilm.mean", "confirmed", "Your number is another one?",
                 "-m 'minilm.mean' -t sts-b", "@misc", "weights 53aa51172d14"):  # fmt: skip
        assert text in shown, text
    model = dialog.locator("a", has_text="sentence-transformers/all-MiniLM-L6-v2")
    assert model.get_attribute("href").startswith("https://huggingface.co/sentence-")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert "cell=" not in page.url
    row = "simcse.t5/bert-base-first-last-avg/sts12"
    shown = visit(f"#cell={row}").locator("dialog").inner_text()
    neighbour = "45.09 with pooling first-last instead of static-last"
    assert f"{neighbour} (simcse.issue-285)" in shown
    assert f"harness explain {row} --mine YOUR_NUMBER" in shown


def test_a_phone_shows_averages_and_verdicts_and_nothing_wider_than_itself(visit):
    page = visit(viewport=PHONE)
    assert page.evaluate(WIDTH) == 400
    average = page.locator(".board:not([hidden]) tbody td").first
    verdict = page.locator("tr.measured th", has_text="exact").first
    for element in (average, verdict):
        box = element.bounding_box()
        assert box["x"] + box["width"] < 400
    page = visit(f"#cell={CELL}", viewport=PHONE)
    assert page.locator("dialog").bounding_box()["width"] < 400
    assert page.evaluate(WIDTH) == 400


def test_a_sign_takes_no_more_room_than_a_sign(visit):
    page = visit(viewport=PHONE)
    sign = page.locator("[id='table-simcse.t5'] td.text").first
    assert sign.bounding_box()["width"] < 60


def test_on_paper_the_page_is_light_and_no_table_is_cut_or_folded(visit):
    """The width is that of A4 with margins of 12 mm."""
    page = visit(scripts=False, viewport=PAPER, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
    assert page.locator("details table").last.is_visible()
    edges = "[...document.querySelectorAll('table')].map(x => x.getBoundingClientRect().right)"
    assert max(page.evaluate(edges)) <= PAPER["width"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("fragment", ["", f"#cell={CELL}", f"#score={SCORE}"])
def test_no_rule_of_accessibility_is_broken(visit, scheme, fragment):
    page = visit(fragment, color_scheme=scheme)
    is_dark = page.evaluate(BACKGROUND) == "rgb(13, 17, 23)"
    assert is_dark == (scheme == "dark")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []


def test_without_scripts_every_table_is_there(visit):
    page = visit(scripts=False)
    page.click("#boards summary")
    assert page.locator(".board").first.is_visible()
    assert page.locator(".board").last.is_visible()
    assert not page.locator("#filters").is_visible()
