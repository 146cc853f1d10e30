"""The engine of one model: a thread that owns it, and does what is asked of it, fairly.

Texts are written together, a step of all at a time: those that wait join at the next step, those that end or whose
client has left go at once. Between steps stand whole calls: scores, searches, images. Where both are waiting, the sort
that had less of the time so far goes first.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread
from typing import Any

import torch

from seqloom.decoding.patience import GivenUpError, check_patience, while_waited_for
from seqloom.decoding.prompts import read_prompts
from seqloom.decoding.rows import Rows
from seqloom.runs.generation import Beginning
from seqloom.serving.access import log
from seqloom.serving.errors import ApiError, told
from seqloom.serving.measures import Measures
from seqloom.serving.settings import Settings
from seqloom.serving.written import Piece, Wish, Written, choose

BEGUN = 16  # texts that begin before the others take their next step

Result = Any


class Job:
    """Something that a client waits for; what comes of it goes to the client's event loop."""

    def __init__(self, seconds: float) -> None:
        self.asked = time.monotonic()
        self.deadline = self.asked + seconds
        self.left = False
        """Whether nobody waits for it any more."""
        self.leads = False
        """Whether it is the first of those that a request is made of: a request has begun when that has."""
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[Result | BaseException] = asyncio.Queue()

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits for it, and its time is not over."""
        return not self.left and time.monotonic() < self.deadline

    def tell(self, news: Result | BaseException) -> None:
        """Send something to the client; from the engine's thread."""
        if not self.left:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._news.put_nowait, news)

    async def next(self) -> Result:
        """What comes next of it; an error, if that is what comes, or nothing in time."""
        try:
            async with asyncio.timeout(max(0.0, self.deadline - time.monotonic())):
                news = await self._news.get()
        except TimeoutError:
            self.left = True
            raise ApiError(504, "the answer took too long: ask for less, or later") from None
        if isinstance(news, BaseException):
            raise news
        return news


class Call(Job):
    """A function to be called while nothing else runs on the model."""

    def __init__(self, function: Callable[[], Result], seconds: float) -> None:
        super().__init__(seconds)
        self.function = function


class Writing(Job):
    """Some texts to be written, which begin alike or each by itself."""

    def __init__(self, begin: Callable[[], Sequence[Beginning]], count: int, wish: Wish, seconds: float) -> None:
        super().__init__(seconds)
        self.begin, self.count, self.wish = begin, count, wish
        self.texts: list[Written] = []

    async def pieces(self) -> AsyncIterator[Piece]:
        """All pieces of all texts as they come, to the end of the last."""
        going = self.count
        while going:
            piece: Piece = await self.next()
            going -= piece.ending is not None
            yield piece


class Engine:
    """One model, and the queue of what is asked of it."""

    def __init__(self, name: str, settings: Settings, measures: Measures) -> None:
        self.name, self.settings, self.measures = name, settings, measures
        self._changed = Condition()
        self._calls: deque[Call] = deque()
        self._writings: deque[Writing] = deque()
        self._running: list[Writing] = []
        self._busy: Call | None = None
        self._rows: Rows[Written] | None = None  # none before the first text
        self._spent = {"calls": 0.0, "steps": 0.0}
        measures.gauge("seqloom_waiting", "Requests that wait.", lambda: self.waiting, model=name)
        measures.gauge(
            "seqloom_calls", "Searches, scores and images that are under way.", lambda: self.calls, model=name
        )
        measures.gauge("seqloom_rows", "Texts that are being written.", lambda: self.rows, model=name)
        self._thread = Thread(target=self._work, name=f"engine {name}", daemon=True)
        self._thread.start()

    # ----------------------------------------------------------------------------------------------- for the server

    @property
    def waiting(self) -> int:
        """Requests that have not begun, and whose clients are there."""
        with self._changed:
            return sum(job.leads and not job.left for job in (*self._calls, *self._writings))

    @property
    def calls(self) -> int:
        """Searches, scores and images that are under way: one, or none."""
        return int(self._busy is not None)

    @property
    def rows(self) -> int:
        """Texts that are being written."""
        return len(self._rows) if self._rows else 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        with self._changed:
            return not (self._calls or self._writings or self._running or self._busy)

    def ask(self, *jobs: Call | Writing) -> None:
        """Put all that a request is made of into the queue; an error if it is full."""
        with self._changed:
            waiting = self.waiting
            if waiting >= self.settings.queue:
                self.measures.count("seqloom_refused_total", "Requests that found the queue full.", model=self.name)
                said = f"{waiting:,} requests wait already: try again in a second"
                raise ApiError(429, said, headers={"Retry-After": "1"})
            jobs[0].leads = True
            for job in jobs:
                (self._calls if isinstance(job, Call) else self._writings).append(job)  # type: ignore[arg-type]
            self._changed.notify()

    async def call(self, function: Callable[[], Result], seconds: float) -> Result:
        """What a function gives that runs on the model."""
        job = Call(function, seconds)
        self.ask(job)
        try:
            return await job.next()
        finally:
            job.left = True

    def give_up(self, why: Exception) -> None:
        """Tell all who wait that nothing will come, and why."""
        with self._changed:
            jobs = [*self._calls, *self._writings, *self._running, *([self._busy] if self._busy else [])]
        for job in jobs:
            job.tell(why)
            job.left = True

    # ------------------------------------------------------------------------------------------------- the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls or self._writings or self._running)
                call = self._next_call()
            self._forget()
            if call is not None:
                self._do(call)
            for _ in range(BEGUN):
                if not self._begin_one():
                    break
            if self._running:
                self._step()

    def _next_call(self) -> Call | None:
        """The call whose turn it is, if it is a call's turn."""
        both = self._calls and (self._writings or self._running)
        if not both:
            self._spent = {"calls": 0.0, "steps": 0.0}
        if self._calls and self._spent["calls"] <= self._spent["steps"]:
            self._busy = self._calls.popleft()
            return self._busy
        return None

    def _forget(self) -> None:
        """Let go of what nobody waits for."""
        gone = [job for job in self._running if not job.waited_for]
        if gone:
            self._release(gone)
        with self._changed:
            self._calls = deque(job for job in self._calls if job.waited_for)
            self._writings = deque(job for job in self._writings if job.waited_for)

    def _release(self, jobs: list[Writing]) -> None:
        if self._rows is not None:
            self._rows.leave(text for job in jobs for text in job.texts)
        self._running = [job for job in self._running if job not in jobs]

    def _do(self, call: Call) -> None:
        began = time.monotonic()
        try:
            with while_waited_for(lambda: call.waited_for):
                check_patience()
                call.tell(call.function())
        except GivenUpError:
            pass
        except Exception as error:
            self._fail(call, error)
        self._busy = None
        self._note("calls", began)

    def _begin_one(self) -> bool:
        """Read what the next job's texts begin with; False if there is none, or no room."""
        with self._changed:
            room = not self._writings or self.rows + self._writings[0].count <= self.settings.streams
            if not self._writings or not (room or not self._running):
                return False
            job = self._writings.popleft()
            self._running.append(job)
        began = time.monotonic()
        try:
            self._read(job)
        except Exception as error:
            self._release([job])
            self._fail(job, error)
        self._note("steps", began)
        return True

    @torch.no_grad()
    def _read(self, job: Writing) -> None:
        beginnings = list(job.begin())
        for number in range(job.count):
            alike = len(beginnings) == 1
            beginning = beginnings[0 if alike else number]
            text = Written(number, beginning, job.wish, job.tell)
            if number == 0 or not alike:
                log_probs, state, _ = read_prompts(beginning.steps, [beginning.prompt], beginning.source)
            own = state.reorder(torch.zeros(1, dtype=torch.long, device=log_probs.device)) if alike else state
            choose([text], log_probs.clone())
            job.texts.append(text)
            if text.ending is None:
                self._rows = Rows(beginning.steps) if self._rows is None else self._rows
                self._rows.join([text], own)
        self.measures.time(
            "seqloom_first_token_seconds", "Until the first token.", time.monotonic() - job.asked, model=self.name
        )
        self._count(job.count)
        self._end(job)

    def _step(self) -> None:
        began = time.monotonic()
        tokens = {text: text.tokens[-1] for job in self._running for text in job.texts if text.ending is None}
        try:
            for texts, log_probs in self._rows.step(tokens) if self._rows is not None else ():
                choose(texts, log_probs)
            if self._rows is not None:
                self._rows.leave([text for text in tokens if text.ending is not None])
        except Exception as error:
            for job in self._running:
                self._fail(job, error)
            self._running, self._rows = [], None
        self._count(len(tokens))
        for job in list(self._running):
            self._end(job)
        self._note("steps", began)

    def _end(self, job: Writing) -> None:
        if len(job.texts) == job.count and all(text.ending is not None for text in job.texts):
            self._running = [other for other in self._running if other is not job]

    def _fail(self, job: Job, error: Exception) -> None:
        answer = told(error)
        if answer.status == 500:
            log("failure", model=self.name, error=f"{type(error).__name__}: {error}")
        job.tell(answer)

    def _count(self, tokens: int) -> None:
        self.measures.count("seqloom_tokens_total", "Tokens that were written.", tokens, model=self.name)

    def _note(self, sort: str, began: float) -> None:
        self._spent[sort] += time.monotonic() - began
