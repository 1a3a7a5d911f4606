"""The language of texts: a setting of a namespace."""

import pytest

from standfast import Memory, RecallPackage
from standfast.errors import InvalidSettings, InvalidValue
from standfast.settings import Settings
from standfast.wiring import memory_in

SOURCE = {"kind": "doc", "id": "handbook#4"}


def test_the_language_is_a_setting_of_the_namespace() -> None:
    text = "Die Rückzahlungen dauern vierzehn Tage."
    found = {}
    for language in ("german", "english", "none"):
        memory = Memory.open(":memory:", language=language)
        memory.remember(text, source=SOURCE)
        package = memory.recall("Wie lange dauert die Rückzahlung?")
        assert isinstance(package, RecallPackage)
        found[language] = (len(package.items), package.request.analysis)

    assert found["german"] == (1, "german, snowball-3.1, forms-1, cues-2")
    assert found["english"][1] == "english, snowball-3.1, forms-1, cues-2"
    assert found["none"] == (1, "none"), "it matches the article"
    assert Memory.open(":memory:", language="none").recall("the").items == ()
    with pytest.raises(InvalidValue, match="no language 'klingon'; known: english"):
        Memory.open(":memory:", language="klingon")


def test_settings_name_the_language_of_each_namespace() -> None:
    settings = Settings(language="german", languages={"code": "none"})
    store = Memory.open(":memory:").store
    names = []
    for namespace in ("default", "code"):
        memory = memory_in(settings, store, namespace)
        memory.remember("Der Vertrag gilt.", source=SOURCE)
        package = memory.recall("Vertrag")
        assert isinstance(package, RecallPackage)
        names.append(package.request.analysis)

    assert names == ["german, snowball-3.1, forms-1, cues-2", "none"]
    for wrong in ({"language": "klingon"}, {"languages": {"code": "klingon"}}):
        with pytest.raises(InvalidSettings, match="klingon"):
            Settings(**wrong)
