"""What can go wrong between a prompt's source, its overrides, and the text that a model reads."""

from standfast.errors.root import StandfastError


class PromptError(StandfastError):
    """A prompt can't be found, rendered or changed like this."""

    code = "prompt"
    says = "The prompt can't be used like this."


class UnknownPrompt(PromptError):
    """Nobody registered a prompt of that name."""

    code = "unknown_prompt"
    says = "There is no prompt {prompt_key} in namespace {ns}; register it, or check the name."


class UnknownSection(PromptError):
    """The prompt has no section at that path."""

    code = "unknown_section"
    says = "Prompt {ns}/{prompt_key} has no section {section}; look at its descriptor."


class MissingParameter(PromptError):
    """A placeholder has no value."""

    code = "missing_parameter"
    says = "Prompt {ns}/{prompt_key} needs a value for {names}; bind it before rendering."


class MissingOverride(PromptError):
    """Nothing is stored under the tag that was asked for."""

    code = "missing_override"
    says = "Prompt {ns}/{prompt_key} has no override with tag {tag}; store one, or ask for fallback=Fallback.TEMPLATE to render the source and be told so."


class StaleOverride(PromptError):
    """The override was made for another version of the prompt's source."""

    code = "stale_override"
    says = "The override of {ns}/{prompt_key} with tag {tag} does not fit the source at section {section}: {problem}; make it anew, or ask for fallback=Fallback.TEMPLATE."


class BrokenPlaceholders(PromptError):
    """The new text of a section does not hold the placeholders that its source holds."""

    code = "broken_placeholders"
    says = "Section {section} must hold the placeholders {needed} and holds {found}; keep each of them."


class VersionConflict(PromptError):
    """Somebody else changed the override since it was read. Nothing was changed now."""

    code = "version_conflict"
    says = "The override of {ns}/{prompt_key} with tag {tag} has version {version} now, not {expected_version}; read it again and decide anew."


class InvalidTag(PromptError):
    """The tag can't be used like this."""

    code = "invalid_tag"
    says = "Tag {tag} can't be used like this: {problem}"


class OverridesUnavailable(PromptError):
    """The overrides can't be reached now."""

    code = "overrides_unavailable"
    says = "The overrides store can't be reached: {problem}; try again when it answers."


class DamagedOverride(PromptError):
    """What is stored is not what was written."""

    code = "damaged_override"
    says = "The stored override {name} is damaged: {problem}; restore it or delete it."
