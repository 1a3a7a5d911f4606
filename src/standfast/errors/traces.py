"""Errors of traces: recording, reading, storing and replaying."""

from standfast.errors.root import StandfastError


class TraceError(StandfastError):
    """A trace can't be recorded, read, stored or replayed."""

    code = "trace"
    says = "The trace can't be used like this."


class InvalidTrace(TraceError):
    """The artifact can't be read, or does not fit its JSON Schema."""

    code = "invalid_trace"
    says = "This is not a trace artifact: {problem}"


class ForeignTraceVersion(TraceError):
    """The artifact was written under another version of a contract."""

    code = "trace_version"
    says = "The artifact's {field} is {found}, but this version reads {expected}; record the run again."


class DamagedTrace(TraceError):
    """The artifact was changed after it was written: its hash does not fit its content."""

    code = "damaged_trace"
    says = "The artifact of run {run_id} was changed after it was written: its content hashes to {found}, not {expected}."


class RecorderFinished(TraceError):
    """The trace is finished; nothing can be added to it."""

    code = "recorder_finished"
    says = "The trace of run {run_id} is finished; record into a new run."


class ProfileConflict(TraceError):
    """One tool has two profiles in one run."""

    code = "profile_conflict"
    says = "Tool {tool_name} has the profile {known_version} in this run and can't also have {given_version}; use one."


class TraceExists(TraceError):
    """The folder holds a different trace of that run."""

    code = "trace_exists"
    says = "{file} holds a different trace. A run has one trace; give the new run an id of its own."


class TraceFolderFull(TraceError):
    """The folder of traces holds as much as it may, and nothing in it may be removed yet."""

    code = "trace_folder_full"
    says = (
        "The folder {folder} holds its {max_bytes} bytes of traces, and none is past its retention period; raise "
        "traces_max_bytes, or store traces elsewhere."
    )


class TraceFolderFailed(TraceError):
    """The folder of traces can't be written or read. No file was written partially."""

    code = "trace_folder_failed"
    says = "The trace file {file} can't be used: {problem}"


class RetentionTooShort(TraceError):
    """A sweep may not remove traces as young as this."""

    code = "retention_too_short"
    says = "Traces are kept at least {least_days} days; a sweep of {asked_days} days is refused."


class NotReplayable(TraceError):
    """The run can't be replayed from this artifact."""

    code = "not_replayable"
    says = "Run {run_id} can't be replayed: {problem}"


class ReplayDiverged(TraceError):
    """The agent made a call that the recorded run never made, so there is no result for it."""

    code = "replay_diverged"
    says = "The agent diverged: the recorded run did not call {tool_name} with {normalized_args} this often."


class RecordedFailure(TraceError):
    """The tool failed when the run was recorded, so it fails in the replay."""

    code = "recorded_failure"
    says = "Tool {tool_name} raised {error} when the run was recorded: {problem}"
