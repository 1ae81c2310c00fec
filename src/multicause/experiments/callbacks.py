"""scikit-learn callbacks that experiments listen with."""

import time


class Listener:
    """Follows scikit-learn's callback protocol and does nothing; subclasses say what to do at the end of a task."""

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass


class IterationClock(Listener):
    """Notes the time at the end of every iteration."""

    def __init__(self) -> None:
        self.marks = [time.perf_counter()]

    def on_fit_task_end(self, estimator, context):
        self.marks.append(time.perf_counter())
