"""What each action does, by name: the built-in ones, and those that users add in any of three ways.

    ScriptStore.register_custom_action("my_action", handler)      for every store
    store.registry.register_handler("my_action", handler)         for one
    @registry.register("my_action")                               as a decorator

A handler takes the store and the step and returns a mapping, or nothing. A hook that fails is reported and breaks
nothing.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Handler = Callable[..., Any]  # (script_store, step) -> result, or an awaitable of it
Hook = Callable[..., Any]
H = TypeVar("H", bound=Handler)


class ActionRegistry:
    """Handlers by action name, with hooks that run before and after every action."""

    def __init__(self, handlers: dict[str, Handler] | None = None) -> None:
        self._handlers: dict[str, Handler] = dict(handlers or {})
        self._before: list[Hook] = []
        self._after: list[Hook] = []

    def register(self, name: str) -> Callable[[H], H]:
        """Register the decorated function under a name."""

        def registered(handler: H) -> H:
            self.register_handler(name, handler)
            return handler

        return registered

    def register_handler(self, name: str, handler: Handler) -> None:
        """Register a handler; the latest one of a name counts."""
        self._handlers[name.strip().replace("-", "_")] = handler

    def add_pre_hook(self, hook: Hook) -> None:
        """Call `hook(step)` before every action."""
        self._before.append(hook)

    def add_post_hook(self, hook: Hook) -> None:
        """Call `hook(step, result)` after every action."""
        self._after.append(hook)

    def handler(self, name: str) -> Handler | None:
        """The handler of that name."""
        return self._handlers.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every action that is known here."""
        return tuple(self._handlers)

    def join(self, other: "ActionRegistry") -> None:
        """Take over the handlers and hooks of another registry."""
        self._handlers.update(other._handlers)
        self._before += other._before
        self._after += other._after

    async def before(self, step: dict[str, Any], warn: Callable[[str], None]) -> None:
        """Run the hooks that come first."""
        for hook in self._before:
            await _call_hook(hook, warn, step)

    async def after(self, step: dict[str, Any], result: Any, warn: Callable[[str], None]) -> None:
        """Run the hooks that come last."""
        for hook in self._after:
            await _call_hook(hook, warn, step, result)


async def _call_hook(hook: Hook, warn: Callable[[str], None], *given: Any) -> None:
    try:
        await resolve_value(hook(*given))
    except Exception as error:  # noqa: BLE001  # a hook is somebody else's code
        warn(f"the hook `{getattr(hook, '__name__', 'hook')}` failed: {type(error).__name__}: {error}")


async def resolve_value(value: Any) -> Any:
    """A value, or what an awaitable gives."""
    if inspect.isawaitable(value):
        waiting: Awaitable[Any] = value
        return await waiting
    return value
