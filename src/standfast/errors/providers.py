"""Why a model gave no answer. None of these says anything about the prompt's quality."""

from standfast.errors.root import StandfastError


class ProviderError(StandfastError):
    """The model gave no answer."""

    code = "provider"
    says = "The model gave no answer."


class ProviderUnavailable(ProviderError):
    """The provider could not be reached or was overloaded, also after trying again."""

    code = "provider_unavailable"
    says = "{provider} could not be reached: {problem}; try again later."


class ProviderTimeout(ProviderError):
    """The provider did not answer in time, also after trying again."""

    code = "provider_timeout"
    says = "{provider} did not answer within {timeout_seconds} seconds; allow more, or ask for less."


class ProviderRefused(ProviderError):
    """The provider refused the request; the same request would be refused again."""

    code = "provider_refused"
    says = "{provider} refused the request: {problem}; check the model's name, the key and the request."


class ProviderGarbled(ProviderError):
    """The provider's answer is no answer in its own protocol."""

    code = "provider_garbled"
    says = "{provider} answered with something that is no answer: {problem}"
