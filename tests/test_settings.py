"""Settings: one name everywhere, safe defaults, and no silent typos."""

from pathlib import Path

import pytest

from standfast.errors import InvalidSettings
from standfast.settings import Settings
from standfast.vocabulary import VisibilityMode


@pytest.fixture(autouse=True)
def _empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defaults_write_nothing() -> None:
    settings = Settings.load({})

    assert settings == Settings()
    assert settings.visibility_mode is VisibilityMode.READ_ONLY
    assert not settings.allow_live_read_write


def test_the_environment_wins_over_the_file() -> None:
    Path("standfast.toml").write_text('store = "from-file.db"\nnamespace = "file"\n', encoding="utf-8")
    settings = Settings.load(
        {"STANDFAST_STORE": "from-env.db", "STANDFAST_TEST_ANYTHING": "ours", "HOME": "x"}
    )

    assert (settings.store, settings.namespace) == ("from-env.db", "file")


def test_a_key_in_the_environment_is_no_setting() -> None:
    assert Settings.load({"STANDFAST_API_KEY": "sf_secret"}) == Settings()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"STANDFAST_STOER": "x"}, "STOER"),
        ({"STANDFAST_API_KEYS": "x"}, "API_KEYS"),
        ({"STANDFAST_VISIBILITY_MODE": "everything"}, "everything"),
        ({"STANDFAST_ALLOW_LIVE_READ_WRITE": "perhaps"}, "ALLOW_LIVE_READ_WRITE"),
        ({"STANDFAST_VISIBILITY_MODE": "live_read_write"}, "allow_live_read_write"),
        ({"STANDFAST_STORE": ""}, "empty"),
    ],
)
def test_a_wrong_setting_is_told_by_its_name(environment: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        Settings.load(environment)


def test_the_live_mode_needs_two_words() -> None:
    settings = Settings.load(
        {"STANDFAST_VISIBILITY_MODE": "live_read_write", "STANDFAST_ALLOW_LIVE_READ_WRITE": "true"}
    )

    assert settings.visibility_mode is VisibilityMode.LIVE_READ_WRITE


@pytest.mark.parametrize("content", ["store = ", "store = 5", 'stor = "x"', "\udcff"])
def test_a_broken_file_is_told_by_its_path(content: str) -> None:
    Path("standfast.toml").write_bytes(content.encode("utf-8", "surrogateescape"))

    with pytest.raises(InvalidSettings, match=r"standfast\.toml"):
        Settings.load({})


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="no such file"):
        Settings.load({}, file=tmp_path / "none.toml")
