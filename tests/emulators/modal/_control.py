"""The control plane: apps, images, secrets, volumes, and the life of sandboxes."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from modal_proto import api_pb2

from ._router import sources
from ._state import identity

if TYPE_CHECKING:
    from ._sandbox import Sandbox
    from ._service import Call, Work

_BUILDER = "2025.06"
"""A version of the image builder that the SDK accepts."""
_CREATES = (
    api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING,
    api_pb2.OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS,
    api_pb2.OBJECT_CREATION_TYPE_CREATE_OVERWRITE_IF_EXISTS,
)


def authenticate(call: Call) -> None:
    """Refuse calls without the workspace's token; those about sandboxes need a short-lived one besides."""
    given = (call.metadata("x-modal-token-id"), call.metadata("x-modal-token-secret"))
    if given != (call.state.token_id, call.state.token_secret):
        raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed or unknown")
    needs_more = call.name.endswith("V2") or call.name == "SandboxGetCommandRouterAccess"
    if needs_more and not call.state.short.accepts(call.metadata("x-modal-auth-token"), "workspace"):
        raise GRPCError(Status.UNAUTHENTICATED, "the auth token is not valid, or not any more")


async def hello(call: Call, _: Empty) -> api_pb2.ClientHelloResponse:
    """Greet a client."""
    return api_pb2.ClientHelloResponse(image_builder_version=_BUILDER)


async def auth_token(call: Call, _: Any) -> api_pb2.AuthTokenGetResponse:
    """A short-lived token."""
    return api_pb2.AuthTokenGetResponse(token=call.state.short.make("workspace", call.state.switches.auth_seconds))


async def app(call: Call, request: api_pb2.AppGetOrCreateRequest) -> api_pb2.AppGetOrCreateResponse:
    """An app by name."""
    apps = call.state.apps
    if request.app_name not in apps and request.object_creation_type not in _CREATES:
        raise GRPCError(Status.NOT_FOUND, f"App '{request.app_name}' not found")
    one = apps.setdefault(request.app_name, identity("ap"))
    return api_pb2.AppGetOrCreateResponse(app_id=one)


async def environment(
    call: Call, request: api_pb2.EnvironmentGetOrCreateRequest
) -> api_pb2.EnvironmentGetOrCreateResponse:
    """The one environment."""
    settings = api_pb2.EnvironmentSettings(image_builder_version=_BUILDER)
    metadata = api_pb2.EnvironmentMetadata(name=request.deployment_name or "main", settings=settings)
    return api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-emulated", metadata=metadata)


async def image(call: Call, request: api_pb2.ImageGetOrCreateRequest) -> api_pb2.ImageGetOrCreateResponse:
    """Every image is built at once, and is this machine."""
    one = f"im-{hashlib.sha256(request.image.SerializeToString(deterministic=True)).hexdigest()[:22]}"
    call.entry["commands"] = list(request.image.dockerfile_commands)
    result = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)
    return api_pb2.ImageGetOrCreateResponse(image_id=one, result=result)


async def image_by_id(call: Call, request: api_pb2.ImageFromIdRequest) -> api_pb2.ImageFromIdResponse:
    """Ids that were never given out are accepted: the SDK keeps them from one client to the next."""
    return api_pb2.ImageFromIdResponse(image_id=request.image_id)


async def secret(call: Call, request: api_pb2.SecretGetOrCreateRequest) -> api_pb2.SecretGetOrCreateResponse:
    """A secret by name, or a new one."""
    known, name = call.state.secrets, request.deployment_name
    one = next((one for one, (called, _) in known.items() if name and called == name), None)
    if one is None and name and request.object_creation_type not in _CREATES:
        raise GRPCError(Status.NOT_FOUND, f"Secret '{name}' not found")
    if one is None or request.object_creation_type == api_pb2.OBJECT_CREATION_TYPE_CREATE_OVERWRITE_IF_EXISTS:
        one = one or identity("st")
        known[one] = (name, dict(request.env_dict))
    missing = [key for key in request.required_keys if key not in known[one][1]]
    if missing:
        raise GRPCError(Status.NOT_FOUND, f"Secret is missing key(s): {', '.join(missing)}")
    return api_pb2.SecretGetOrCreateResponse(secret_id=one, metadata=api_pb2.SecretMetadata(name=name))


async def volume(call: Call, request: api_pb2.VolumeGetOrCreateRequest) -> api_pb2.VolumeGetOrCreateResponse:
    """A volume by name, or a new one."""
    known, name = call.state.volumes, request.deployment_name
    one = next((one for one, called in known.items() if name and called == name), None)
    if one is None:
        if name and request.object_creation_type not in _CREATES:
            raise GRPCError(Status.NOT_FOUND, f"Volume '{name}' not found")
        one = identity("vo")
        known[one] = name
    return api_pb2.VolumeGetOrCreateResponse(volume_id=one, metadata=api_pb2.VolumeMetadata(name=name))


def _metadata(box: Sandbox) -> api_pb2.SandboxHandleMetadata:
    return api_pb2.SandboxHandleMetadata(app_id=box.app_id, result=box.result)


def _tags(box: Sandbox) -> list[api_pb2.SandboxTag]:
    return [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in box.tags.items()]


def _as_dict(tags: Any) -> dict[str, str]:
    return {tag.tag_name: tag.tag_value for tag in tags}


async def create(call: Call, request: api_pb2.SandboxCreateV2Request) -> api_pb2.SandboxCreateV2Response:
    """A sandbox of the second version: its secrets come with the request."""
    env = {**call.state.secrets_of(request.definition.secret_ids), **sources(call.state, request)}
    tags = _as_dict(request.tags)
    box = await call.state.create(request.app_id, request.definition, tags, env, is_second=True)
    call.entry["sandbox"] = box.id
    assert box.worker is not None
    access = api_pb2.CommandRouterAccess(url=box.worker.url, jwt=box.worker.token())
    return api_pb2.SandboxCreateV2Response(
        sandbox_id=box.id, task_id=box.task_id, metadata=_metadata(box), command_router_access=access
    )


async def create_first(call: Call, request: api_pb2.SandboxCreateRequest) -> api_pb2.SandboxCreateResponse:
    """A sandbox of the first version, as the SDK asks for with a GPU."""
    env, tags = call.state.secrets_of(request.definition.secret_ids), _as_dict(request.tags)
    box = await call.state.create(request.app_id, request.definition, tags, env, is_second=False)
    call.entry["sandbox"] = box.id
    return api_pb2.SandboxCreateResponse(sandbox_id=box.id, metadata=_metadata(box))


async def task_id(call: Call, request: api_pb2.SandboxGetTaskIdRequest) -> api_pb2.SandboxGetTaskIdResponse:
    """The task of a sandbox; of one that has ended, only how."""
    box = call.state.find(request.sandbox_id)
    if box.result is not None:
        return api_pb2.SandboxGetTaskIdResponse(task_result=box.result)
    return api_pb2.SandboxGetTaskIdResponse(task_id=box.task_id)


def _worker(call: Call, sandbox: str, task: str) -> Sandbox:
    known = call.state.sandboxes
    box = known.get(sandbox) or next((box for box in known.values() if task and box.task_id == task), None)
    if box is None:
        raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox or task} not found")
    call.entry["sandbox"] = box.id
    if box.result is not None:
        raise GRPCError(Status.FAILED_PRECONDITION, f"Sandbox {box.id} has already finished")
    return box


async def access(
    call: Call, request: api_pb2.SandboxGetCommandRouterAccessRequest
) -> api_pb2.SandboxGetCommandRouterAccessResponse:
    """Address and token of a sandbox's worker."""
    worker = _worker(call, request.sandbox_id, request.task_id).worker
    assert worker is not None
    return api_pb2.SandboxGetCommandRouterAccessResponse(url=worker.url, jwt=worker.token())


async def access_first(
    call: Call, request: api_pb2.TaskGetCommandRouterAccessRequest
) -> api_pb2.TaskGetCommandRouterAccessResponse:
    """The same for the first version."""
    worker = _worker(call, "", request.task_id).worker
    assert worker is not None
    return api_pb2.TaskGetCommandRouterAccessResponse(url=worker.url, jwt=worker.token())


async def wait(call: Call, request: api_pb2.SandboxWaitRequest) -> api_pb2.SandboxWaitResponse:
    """How a sandbox ended; waits for it as long as it was asked to."""
    box = call.state.find(request.sandbox_id)
    try:
        async with asyncio.timeout(request.timeout):
            while box.result is None:
                await box.changes.next()
    except TimeoutError:
        pass
    return api_pb2.SandboxWaitResponse(result=box.result, metadata=_metadata(box))


async def terminate(call: Call, request: api_pb2.SandboxTerminateRequest) -> api_pb2.SandboxTerminateResponse:
    """End a sandbox; one that has ended stays as it is."""
    box = call.state.find(request.sandbox_id)
    before = box.result
    status = api_pb2.GenericResult.GENERIC_STATUS_TERMINATED
    await call.state.keep(box.end(api_pb2.GenericResult(status=status)))
    return api_pb2.SandboxTerminateResponse(existing_result=before)


async def get_tags(call: Call, request: api_pb2.SandboxTagsGetRequest) -> api_pb2.SandboxTagsGetResponse:
    """The tags of a sandbox."""
    return api_pb2.SandboxTagsGetResponse(tags=_tags(call.state.find(request.sandbox_id)))


async def set_tags(call: Call, request: api_pb2.SandboxTagsSetRequest) -> Empty:
    """Other tags in place of those that it has."""
    call.state.find(request.sandbox_id).tags = _as_dict(request.tags)
    return Empty()


async def list_all(call: Call, request: api_pb2.SandboxListRequest) -> api_pb2.SandboxListResponse:
    """Sandboxes with at least these tags, newest first, a page at a time."""
    wanted = _as_dict(request.tags).items()
    found = [
        box
        for box in sorted(call.state.sandboxes.values(), key=lambda box: -box.created)
        if (box.result is None or request.include_finished)
        and (not request.app_id or box.app_id == request.app_id)
        and (not request.before_timestamp or box.created < request.before_timestamp)
        and wanted <= box.tags.items()
    ]
    page = [
        api_pb2.SandboxInfo(
            id=box.id,
            created_at=box.created,
            app_id=box.app_id,
            tags=_tags(box),
            name=box.name,
            image_id=box.definition.image_id,
            timeout_secs=box.definition.timeout_secs,
            task_info=api_pb2.TaskInfo(id=box.task_id, started_at=box.created, result=box.result, sandbox_id=box.id),
            metadata=_metadata(box),
        )
        for box in found[: call.state.switches.page]
    ]
    return api_pb2.SandboxListResponse(sandboxes=page)


async def by_name(call: Call, request: api_pb2.SandboxGetFromNameRequest) -> api_pb2.SandboxGetFromNameResponse:
    """A running sandbox by name."""
    for box in call.state.sandboxes.values():
        is_it = box.name == request.sandbox_name and call.state.apps.get(request.app_name) == box.app_id
        if is_it and (box.result is None or request.include_terminated):
            return api_pb2.SandboxGetFromNameResponse(sandbox_id=box.id, metadata=_metadata(box))
    raise GRPCError(Status.NOT_FOUND, f"Sandbox with name {request.sandbox_name} not found")


WORK: dict[str, Work] = {
    "ClientHello": hello,
    "AuthTokenGet": auth_token,
    "AppGetOrCreate": app,
    "EnvironmentGetOrCreate": environment,
    "ImageGetOrCreate": image,
    "ImageFromId": image_by_id,
    "SecretGetOrCreate": secret,
    "VolumeGetOrCreate": volume,
    "SandboxCreateV2": create,
    "SandboxCreate": create_first,
    "SandboxGetCommandRouterAccess": access,
    "TaskGetCommandRouterAccess": access_first,
    **dict.fromkeys(("SandboxGetTaskId", "SandboxGetTaskIdV2"), task_id),
    **dict.fromkeys(("SandboxWait", "SandboxWaitV2"), wait),
    **dict.fromkeys(("SandboxTerminate", "SandboxTerminateV2"), terminate),
    **dict.fromkeys(("SandboxTagsGet", "SandboxTagsGetV2"), get_tags),
    **dict.fromkeys(("SandboxTagsSet", "SandboxTagsSetV2"), set_tags),
    **dict.fromkeys(("SandboxList", "SandboxListV2"), list_all),
    **dict.fromkeys(("SandboxGetFromName", "SandboxGetFromNameV2"), by_name),
}
"""The RPCs of the control plane."""
