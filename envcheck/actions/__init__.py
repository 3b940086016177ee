"""Typed steps: what a plan or a remedy does, how each is written for a shell, checked and undone.

A step is a value. Command lines exist only here and at the edge, where they are printed or run: no other code looks
into one to find out what it does.
"""

from __future__ import annotations

from envcheck.actions.environments import (
    ActivateEnvironment,
    AddPip,
    CreateEnvironment,
    ImportFrameworks,
    InstallCondaPackages,
    InstallPackages,
    RemoveCondaPackages,
    RunPython,
    SetCondaVariable,
    UninstallPackages,
    UpgradePip,
)
from envcheck.actions.files import (
    AddLoaderFolder,
    LinkFile,
    MakeFolder,
    RenameFile,
    SetVariables,
    UnsetVariable,
    WriteFile,
)
from envcheck.actions.system import (
    BuildModules,
    InstallSystemPackages,
    LoadModule,
    Reboot,
    RefreshPackageLists,
    RemoveSystemPackages,
    RestartService,
    StartService,
    UnloadModules,
)
from envcheck.actions.types import AskPerson, RunCommand, RunEnvcheck, Show, ShowKernelLog
from envcheck.model.actions import ENVIRONMENT, SYSTEM, USER, Action, Trace

__all__ = [
    "ENVIRONMENT",
    "SYSTEM",
    "USER",
    "Action",
    "ActivateEnvironment",
    "AddLoaderFolder",
    "AddPip",
    "AskPerson",
    "BuildModules",
    "CreateEnvironment",
    "ImportFrameworks",
    "InstallCondaPackages",
    "InstallPackages",
    "InstallSystemPackages",
    "LinkFile",
    "LoadModule",
    "MakeFolder",
    "Reboot",
    "RefreshPackageLists",
    "RemoveCondaPackages",
    "RemoveSystemPackages",
    "RenameFile",
    "RestartService",
    "RunCommand",
    "RunEnvcheck",
    "RunPython",
    "SetCondaVariable",
    "SetVariables",
    "Show",
    "ShowKernelLog",
    "StartService",
    "Trace",
    "UninstallPackages",
    "UnloadModules",
    "UnsetVariable",
    "UpgradePip",
    "WriteFile",
]
