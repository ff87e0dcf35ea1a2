"""The committed page of results in a real browser: filter, sort, open, link, copy, phone, dark."""

import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "results" / "site" / "index.html").as_uri()
AXE = ROOT / "tests" / "support" / "axe" / "axe.min.js"
CELL = "mteb.1-12-75/minilm/sts-b"
SCORE = "simcse-sup-bert-mini.mean/sts12.senteval/spearman.all"
NETWORK = "http"
UNFOLD = "document.querySelectorAll('details').forEach(part => { part.open = true })"
IN_VIEW = "element => [element.getBoundingClientRect().y].every(y => 0 <= y && y < 900)"


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

    def opened(fragment="", width=1280, height=900, scheme="light", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=scripts,
            permissions=["clipboard-read", "clipboard-write"],
        )
        page = context.new_page()
        page.set_default_timeout(15_000)
        contexts.append(context)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda asked: said.extend([asked.url] * asked.url.startswith(NETWORK)),
        )
        page.goto(PAGE + fragment)
        if scripts:
            page.evaluate(UNFOLD)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


def rows(page):
    """The methods that the leaderboard shows, in order."""
    found = page.locator(".board:not([hidden]) tbody tr th").all_inner_texts()
    return [text.removesuffix(" †") for text in found]


def violations(page):
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20
    return [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]


@pytest.mark.slow
def test_filters_narrow_the_leaderboard_and_stand_in_the_hash(visit):
    page = visit()
    every = len(rows(page))
    page.select_option("[name=encoder]", "bert-mini")
    assert 0 < len(rows(page)) < every
    assert {name.split(".")[0] for name in rows(page)} == {"bert-mini"}
    page.select_option("[name=post]", "whitening")
    page.select_option("[name=fit]", "yes")
    assert rows(page)
    assert all("+whitening" in name and "@target" in name for name in rows(page))
    page.fill("[name=q]", "first-last")
    assert all("first-last" in name for name in rows(page))
    assert "encoder=bert-mini" in page.url
    again = visit(page.url.partition("index.html")[2])
    assert rows(again) == rows(page)
    page.click("text=Show all")
    page.wait_for_function("!location.hash.includes('encoder')")
    assert len(rows(page)) == every


def test_a_published_number_opens_with_all_that_is_known_of_it(visit):
    page = visit()
    page.locator(f'main a[href="#cell={CELL}"]').first.click()
    dialog = page.locator("dialog")
    dialog.wait_for(state="visible")  # the page hears of its new address a moment later
    shown = dialog.inner_text()
    for text in ("82.03", "exact", "minilm.mean", "confirmed", "Your number is another one?",
                 "-m 'minilm.mean' -t sts-b", "@misc", "weights 53aa51172d14"):  # fmt: skip
        assert text in shown, text
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert "cell=" not in page.url


def test_every_shown_row_is_saved_as_csv(visit):
    page = visit("#encoder=glove-mini")
    with page.expect_download() as saved:
        page.click("#csv")
    lines = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"method","STS12"')
    assert len(lines) == 1 + len(rows(page)) > 1


def test_a_phone_shows_averages_and_verdicts_and_nothing_wider_than_itself(visit):
    page = visit(width=400, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    box = page.locator(".board:not([hidden]) tbody td").first.bounding_box()
    assert box["x"] + box["width"] < 400
    verdict = page.locator("tr.measured th", has_text="exact").first.bounding_box()
    assert verdict["x"] + verdict["width"] < 400
    page = visit(f"#cell={CELL}", width=400, height=800)
    assert page.locator("dialog").bounding_box()["width"] < 400
    assert page.evaluate("document.documentElement.scrollWidth") == 400


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("fragment", ["", f"#cell={CELL}", f"#score={SCORE}"])
def test_no_rule_of_accessibility_is_broken(visit, scheme, fragment):
    page = visit(fragment, scheme=scheme)
    dark = (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(13, 17, 23)"
    )
    assert dark == (scheme == "dark")
    assert violations(page) == []


def test_without_scripts_every_table_is_there(visit):
    page = visit(scripts=False)
    page.click("#boards summary")
    assert page.locator(".board").first.is_visible()
    assert page.locator(".board").last.is_visible()
    assert not page.locator("#filters").is_visible()


def test_a_published_number_is_shown_with_those_under_one_other_choice(visit):
    page = visit("#cell=simcse.t5/bert-base-first-last-avg/sts12")
    shown = page.locator("dialog").inner_text()
    assert (
        "45.09 with pooling first-last instead of static-last (simcse.issue-285)"
        in shown
    )
    row = "simcse.t5/bert-base-first-last-avg/sts12"
    assert f"harness explain {row} --mine YOUR_NUMBER" in shown


def test_papers_code_and_models_are_links_and_the_picture_is_there(visit):
    page = visit(f"#cell={CELL}")
    model = page.locator("dialog a", has_text="sentence-transformers/all-MiniLM-L6-v2")
    assert model.get_attribute("href").startswith(
        "https://huggingface.co/sentence-transformers/"
    )
    links = page.locator("#papers a[href*='arxiv.org']").count()
    assert links > 20
    assert page.locator("#reproduced img").count() == 1
