"""What a trace can't prove, can't be read as, or can't be replayed from."""

from standfast.errors.root import StandfastError


class TraceError(StandfastError):
    """A trace can't be recorded, read, kept or replayed."""

    code = "trace"
    says = "This can't be done with a trace."


class InvalidTrace(TraceError):
    """The artifact is no trace: it can't be read, or breaks its JSON Schema."""

    code = "invalid_trace"
    says = "This is no trace artifact: {problem}"


class ForeignTraceVersion(TraceError):
    """The artifact was written under another version of a contract."""

    code = "trace_version"
    says = "The artifact's {field} is {found}, but only {expected} is read here; record the run anew."


class DamagedTrace(TraceError):
    """The artifact is not what was written: its hash does not fit its content."""

    code = "damaged_trace"
    says = "The artifact of run {run_id} was changed after it was written: its content hashes to {found}, not {expected}."


class RecorderFinished(TraceError):
    """The trace has been made already; nothing can be added to it."""

    code = "recorder_finished"
    says = "The trace of run {run_id} is finished; record into a new run."


class ProfileConflict(TraceError):
    """One tool has two profiles in one run."""

    code = "profile_conflict"
    says = "Tool {tool_name} has the profile {known_version} in this run, and now another ({given_version}); keep one."


class TraceExists(TraceError):
    """Another trace of that name is kept already."""

    code = "trace_exists"
    says = "{file} holds another trace already; a run has one trace, so give the new run an id of its own."


class TraceFolderFailed(TraceError):
    """The folder of traces can't be written or read. Nothing was half written."""

    code = "trace_folder_failed"
    says = "The trace file {file} can't be used: {problem}"


class RetentionTooShort(TraceError):
    """Traces are kept for a least number of days, whatever a sweep asks for."""

    code = "retention_too_short"
    says = "Traces are kept at least {least_days} days; a sweep of {asked_days} days is refused."


class NotReplayable(TraceError):
    """The run can't be played again from this artifact."""

    code = "not_replayable"
    says = "Run {run_id} can't be replayed: {problem}"


class ReplayDiverged(TraceError):
    """The agent made a call that the recorded run never made, so there is no result to give it."""

    code = "replay_diverged"
    says = (
        "The recorded run never called {tool_name} with {normalized_args} this often; the agent has diverged."
    )


class RecordedFailure(TraceError):
    """The tool failed when the run was recorded, and so it fails in the replay."""

    code = "recorded_failure"
    says = "Tool {tool_name} raised {error} when the run was recorded: {problem}"
