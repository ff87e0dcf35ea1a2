"""Changes to a scene that say what a pair of sentences has in common, the way SICK was built.

Each takes a scene and returns another, or None where it does not apply. What it does to the gold is
not its business: gold.py compares the two scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from english.dice import Dice
from english.lexicon import lexicon
from english.scenes import (
    COUNTS,
    Entity,
    Scene,
    amount,
    countable,
    draw,
    entity,
    frame_of,
    object_of,
    places,
    settings_of,
)

Edit = Callable[[Dice, Scene], Scene | None]
Role = tuple[str, str]  # of a scene, of a frame

AGENT: Role = ("agent", "who")
PATIENT: Role = ("patient", "what")


def same(_: Dice, scene: Scene) -> Scene | None:
    """Nothing but other words: a paraphrase."""
    return scene


def broaden(dice: Dice, scene: Scene) -> Scene | None:
    """A part becomes its kind: a dog an animal, frying cooking."""
    role = dice.pick(("agent", "patient", "patient", "setting", "event"))
    if role == "event":
        return _wider(scene)
    if role == "setting":
        kind = lexicon().parent("places", scene.setting) if scene.setting else None
        return replace(scene, setting=kind) if kind else None
    thing = _get(scene, role)
    kind = lexicon().parent("nouns", thing.noun) if thing else None
    if kind is None or thing is None or not (countable(kind) and countable(thing.noun)):
        return None
    return _put(scene, role, replace(thing, noun=kind))


def shorten(dice: Dice, scene: Scene) -> Scene | None:
    """One detail less: the setting, or a trait."""
    role = dice.pick(("setting", "agent", "patient"))
    if role == "setting":
        return replace(scene, setting="") if scene.setting else None
    thing = _get(scene, role)
    return _put(scene, role, replace(thing, trait="")) if thing and thing.trait else None


def setting(dice: Dice, scene: Scene) -> Scene | None:
    """Another place or time, none, or one where there was none."""
    others = [place for place in settings_of(scene) if place != scene.setting]
    if scene.setting and dice.chance(0.4):
        return replace(scene, setting="")
    return replace(scene, setting=dice.pick(others)) if others else None


def trait(dice: Dice, scene: Scene) -> Scene | None:
    """Another trait, none, or one where there was none."""
    role = dice.pick(("agent", "patient"))
    thing = _get(scene, role)
    if thing is None:
        return None
    if thing.trait and dice.chance(0.5):
        return _put(scene, role, replace(thing, trait=""))
    others = [t for t in lexicon().traits_of[scene.genre, thing.noun] if t != thing.trait]
    return _put(scene, role, replace(thing, trait=dice.pick(others))) if others else None


def number(dice: Dice, scene: Scene) -> Scene | None:
    """Another number of those who act."""
    if scene.agent is None or scene.genre != "captions" or not countable(scene.agent.noun):
        return None
    count = dice.pick([count for count, _ in COUNTS if count != scene.agent.count])
    agent, patient = replace(scene.agent, count=count), scene.patient
    event = lexicon().events[scene.event]
    if patient and event.things == "each":
        patient = replace(patient, count=amount(dice, event, scene.genre, patient, agent))
    return replace(scene, agent=agent, patient=patient)


def deny(_: Dice, scene: Scene) -> Scene | None:
    """The scene does not happen, or does after all."""
    return None if scene.genre == "questions" else replace(scene, denied=not scene.denied)


def oppose(dice: Dice, scene: Scene) -> Scene | None:
    """The opposite happens: a door is shut that was opened."""
    opposite = lexicon().events[scene.event].opposite
    found = _into(dice, scene, opposite) if opposite else None
    if found is None or (found.agent, found.patient) != (scene.agent, scene.patient):
        return None
    return found if found.setting == scene.setting else replace(found, setting="")


def contrast(dice: Dice, scene: Scene) -> Scene | None:
    """The opposite trait: an old man is young."""
    role = dice.pick(("agent", "patient"))
    thing = _get(scene, role)
    opposite = lexicon().traits[thing.trait].opposite if thing and thing.trait else ""
    if not thing or thing.noun not in (lexicon().traits[opposite].of if opposite else ()):
        return None
    return _put(scene, role, replace(thing, trait=opposite))


def swap(_: Dice, scene: Scene) -> Scene | None:
    """Who acted is acted on, where both can do either."""
    if scene.agent is None or scene.patient is None:
        return None
    for which, frame in enumerate(lexicon().events[scene.event].frames):
        if scene.patient.noun in frame.who and scene.agent.noun in frame.what:
            return replace(scene, frame=which, agent=scene.patient, patient=scene.agent)
    return None


def unnamed(_: Dice, scene: Scene) -> Scene | None:
    """Nobody is named who does it."""
    if scene.patient is None or scene.agent is None or scene.genre != "captions":
        return None
    return replace(scene, agent=None)


def other_agent(dice: Dice, scene: Scene) -> Scene | None:
    """Somebody else does it."""
    return _other(dice, scene, AGENT)


def other_patient(dice: Dice, scene: Scene) -> Scene | None:
    """It is done to something else."""
    return _other(dice, scene, PATIENT)


def other_event(dice: Dice, scene: Scene) -> Scene | None:
    """Something else is done to the same, by the same if they can do that too.

    Neither the opposite nor a wider or a narrower event.
    """
    role, thing = ("what", scene.patient) if scene.patient else ("who", scene.agent)
    if thing is None:
        return None
    words = lexicon()
    near = (scene.event, words.events[scene.event].opposite, words.parent("events", scene.event))
    found = [
        name
        for name, _ in places(scene.genre, role, thing.noun)
        if name not in near and scene.event != words.parent("events", name)
    ]
    return _into(dice, scene, dice.pick(found)) if found else None


def other_ask(dice: Dice, scene: Scene) -> Scene | None:
    """Something else is asked about the same."""
    others = [ask for ask in lexicon().events[scene.event].asks if ask != scene.ask]
    if not scene.ask or not others:
        return None
    found = replace(scene, ask=dice.pick(others))
    return found if found.setting in settings_of(found) else replace(found, setting="")


def same_agent(dice: Dice, scene: Scene) -> Scene | None:
    """Nothing is kept but who, where and how many: another scene with the same people in it."""
    if scene.agent is None:
        return None
    found = [p for p in places(scene.genre, "who", scene.agent.noun) if p[0] != scene.event]
    return _at(dice, scene, *dice.pick(found), keep=("agent",)) if found else None


def unrelated(dice: Dice, scene: Scene) -> Scene | None:
    """Any other scene, that says as much: a setting if this one has one, and that it is denied."""
    found = draw(dice, scene.genre, scene.split)
    return replace(found, setting=_where(dice, scene, found), denied=scene.denied)


def _other(dice: Dice, scene: Scene, role: Role) -> Scene | None:
    name, column = role
    thing = _get(scene, name)
    if thing is None:
        return None
    taken = {e.noun for e in (scene.agent, scene.patient) if e}
    others = [n for n in getattr(frame_of(scene), column) if n not in taken]
    if not others:
        return None
    return _put(scene, name, _fitted(scene.genre, thing, dice.pick(others)))


def _fitted(genre: str, thing: Entity, noun: str) -> Entity:
    """Another noun with what it can keep of number and trait."""
    known = thing.trait in lexicon().traits_of[genre, noun]
    count = thing.count if countable(noun) else "one"
    return Entity(noun, count, thing.trait if known else "")


def _wider(scene: Scene) -> Scene | None:
    """The same done in a wider sense: frying as cooking."""
    kind = lexicon().parent("events", scene.event)
    if kind is None:
        return None
    for which, frame in enumerate(lexicon().events[kind].frames):
        if not scene.patient or scene.patient.noun in frame.what:
            return replace(scene, event=kind, frame=which)
    return None


def _into(dice: Dice, scene: Scene, event: str) -> Scene | None:
    """The scene with another event, in the frame that keeps most of it."""
    frames = lexicon().events[event].frames
    keeps = [
        2 * (_noun(scene.patient) in frame.what) + (_noun(scene.agent) in frame.who)
        for frame in frames
    ]
    return _at(dice, scene, event, keeps.index(max(keeps)), keep=("agent", "patient"))


def _at(dice: Dice, scene: Scene, event: str, which: int, keep: Iterable[str]) -> Scene | None:
    """The scene in a frame of another event: what fits of these roles is kept, the rest drawn."""
    made, frame = lexicon().events[event], lexicon().events[event].frames[which]
    agent, patient = scene.agent, scene.patient
    if "agent" not in keep or _noun(agent) not in frame.who:
        agent = entity(dice, scene.genre, dice.zipf(frame.who) if frame.who else "")
    if "patient" not in keep or _noun(patient) not in frame.what:
        patient = entity(dice, scene.genre, object_of(dice, frame, _noun(agent)))
    if patient:
        if patient.noun == _noun(agent):
            return None
        patient = replace(patient, count=amount(dice, made, scene.genre, patient, agent))
    ask = scene.ask if scene.ask in made.asks else (made.asks[0] if scene.ask else "")
    found = replace(scene, event=event, frame=which, agent=agent, patient=patient, ask=ask)
    return replace(found, setting=_where(dice, scene, found))


def _where(dice: Dice, scene: Scene, found: Scene) -> str:
    """A setting for another scene if this one has one: the same if it fits, else one that does."""
    if not scene.setting:
        return ""
    known = settings_of(found)
    if scene.setting in known:
        return scene.setting
    return found.setting if found.setting in known else dice.zipf(known) if known else ""


def _get(scene: Scene, role: str) -> Entity | None:
    return scene.agent if role == "agent" else scene.patient


def _put(scene: Scene, role: str, thing: Entity) -> Scene:
    return replace(scene, agent=thing) if role == "agent" else replace(scene, patient=thing)


def _noun(thing: Entity | None) -> str:
    return thing.noun if thing else ""
