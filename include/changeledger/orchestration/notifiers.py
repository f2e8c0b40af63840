"""Finds, checks and calls the Airflow notifiers of a YAML file.

The message reaches a notifier through Jinja's context, never as part of a template, because a row's value
must not be run as one.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar

from airflow.sdk.bases.notifier import BaseNotifier

from changeledger.config.notify import Notify
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant
from changeledger.model.wording import exact

log = logging.getLogger("changeledger.alerts")

# Names of notifiers' arguments for text and subject. The first one that a notifier has is filled in.
_TEXTS: Final = ("text", "message", "body", "content", "message_body", "summary")
_HTML: Final = "html_content"
_SUBJECTS: Final = ("subject", "title")
# The Jinja variable with the message.
_NAME: Final = "changeledger"
# Parts of a message that are in its first line.
_IN_SUBJECT: Final = ("subject", "event")
_PROVIDERS: Final = "airflow.providers."
_WHERE: Final = 'correct `notify:` (docs/running.md, "Who is told")'


class Notifying(Protocol):
    """A feed or a database."""

    @property
    def notify(self) -> Sequence[Notify]: ...


Named = TypeVar("Named", bound=Notifying)


def with_notifiers(named: Mapping[str, Named]) -> tuple[dict[str, Named], list[ConfigError]]:
    """Returns those whose notifiers can be called, by name, and the errors of the others."""
    usable, errors = {}, []
    for name, config in named.items():
        try:
            for notify in config.notify:
                notifier(notify)
        except ConfigError as error:
            errors.append(ConfigError(f"{name}: notify: {error.message}", error.remedy))
            continue
        usable[name] = config
    return usable, errors


def notifier(notify: Notify) -> BaseNotifier:
    """Returns a new notifier, for one call. Raises ConfigError for an unknown class or argument."""
    notifier_class = _class(notify.notifier)
    known = _parameters(notifier_class)
    for name in notify.arguments:
        if name not in known:
            near = meant(name, known)
            choice = f"did you mean `{near}`?" if near else f"choose from {', '.join(known)};"
            raise ConfigError(f"{notify.notifier} has no argument `{name}`", f"{choice} {_WHERE}")
    arguments = {**dict(_texts(notify, known)), **notify.arguments}
    try:
        return notifier_class(**arguments)
    except Exception as error:  # each class checks its arguments in its own way
        raise ConfigError(f"{notify.notifier} does not accept its arguments: {error}", _WHERE) from error


def tell(notify: Notify, told: Mapping[str, Any], context: Mapping[str, Any]) -> None:
    """Calls a notifier. `told`: see `alerts`. Logs an error of the notifier and does not raise it."""
    try:
        lines = [
            f"{name}: {_text(value)}" for name, value in told.items() if value and name not in _IN_SUBJECT
        ]
        subject = " ".join(f"changeledger: {told['subject']} {told['event']}".split())
        text = "\n".join([subject, *lines])
        said = {**told, "title": subject, "text": text, "html": f"<pre>{escape(text)}</pre>"}
        notifier(notify)({**context, _NAME: said})
    except Exception as error:  # noqa: BLE001 - whatever a provider raises
        # Without the error's text: it may contain the address of a channel, which is a secret.
        log.warning("%s could not notify anybody: %s", notify.notifier, type(error).__name__)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return exact(value)
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _texts(notify: Notify, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the arguments for text and subject. Raises ConfigError if the one for the text is unknown."""
    given = {name: value for name, value in notify.arguments.items() if _NAME in repr(value)}
    is_html = _HTML in known
    text = _HTML if is_html else next((name for name in _TEXTS if name in known), None)
    if text is not None:
        yield text, f"{{{{ {_NAME}.{'html' if is_html else 'text'} }}}}"
    elif not given:
        raise ConfigError(
            f"{notify.notifier} has none of the arguments {', '.join((_HTML, *_TEXTS))} for the message",
            f'give the text ("{{{{ {_NAME}.text }}}}") to one of its own arguments: {_WHERE}',
        )
    subject = next((name for name in _SUBJECTS if name in known), None)
    if subject is not None:
        yield subject, f"{{{{ {_NAME}.title }}}}"


def _class(path: str) -> type[BaseNotifier]:
    module, _, name = path.rpartition(".")
    try:
        imported_module = import_module(module)
    except ImportError as error:
        provider = module.removeprefix(_PROVIDERS).partition(".notifications")[0].replace(".", "-")
        install = f"install apache-airflow-providers-{provider} in addition to the locked requirements, or "
        raise ConfigError(
            f"{module} cannot be imported: {error}",
            f"{install if module.startswith(_PROVIDERS) else ''}{_WHERE}",
        ) from error
    attribute = getattr(imported_module, name, None)
    if isinstance(attribute, type) and issubclass(attribute, BaseNotifier):
        return attribute
    others = {
        n: o for n, o in vars(imported_module).items() if isinstance(o, type) and issubclass(o, BaseNotifier)
    }
    others.pop(BaseNotifier.__name__, None)
    near = meant(name, others)
    guess = f"did you mean `{near}`?" if near else f"it has {', '.join(others) or 'none'}:"
    raise ConfigError(f"{name} is not a notifier of {module}", f"{guess} {_WHERE}")


def _parameters(notifier_class: type[BaseNotifier]) -> list[str]:
    """Returns the names of the arguments, including those of base classes that get the class' others."""
    names: dict[str, None] = {}
    for base in notifier_class.__mro__:
        if base in (BaseNotifier, object) or "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        named = (p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
        names |= dict.fromkeys(named)
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            break
    return list(names)
