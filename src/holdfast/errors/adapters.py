"""What can go wrong between an agent framework and memory."""

from holdfast.errors.root import HoldfastError


class PutRefused(HoldfastError):
    """The judge refused something of a batch, so that nothing of the batch was remembered."""

    code = "put_refused"
    says = "{subject} was refused ({verdict}), and with it its whole batch: {reasons}"
