"""What can go wrong between an agent framework and memory."""

from standfast.errors.root import StandfastError


class PutRefused(StandfastError):
    """The judge refused something of a batch, so that nothing of the batch was remembered."""

    code = "put_refused"
    says = "{subject} was refused ({verdict}), and with it its whole batch: {reasons}"
