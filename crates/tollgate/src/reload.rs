//! `tollgate reload`: asks a running instance to read its configuration again, and prints what it says.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::serve::setup::{self, Origin};
use crate::{ReloadArguments, say};

/// Longer than any reload takes: reading keys and looking up host names.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(arguments: &ReloadArguments) -> ExitCode {
    let path = match control_path(arguments) {
        Ok(path) => path,
        Err(complaint) => {
            say::plain_error(&complaint);
            return ExitCode::from(say::WRONG_INPUT);
        }
    };
    match ask(&path, arguments.allow_dearer_certificate) {
        Ok(answer) => match answer.split_once('\n') {
            Some(("ok", rest)) => {
                say::result(rest);
                ExitCode::SUCCESS
            }
            Some((_, rest)) => {
                say::plain_error(rest);
                ExitCode::from(say::WRONG_INPUT)
            }
            None => say::broke("the instance ended without an answer; its standard error says why"),
        },
        Err(error) => say::broke(&match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => format!(
                "nobody listens on {}; is tollgate serve running with this configuration, as this user?",
                path.display()
            ),
            ErrorKind::PermissionDenied => {
                format!(
                    "no permission to open {}; run this as the user that serves",
                    path.display()
                )
            }
            _ => format!("{}: {error}", path.display()),
        }),
    }
}

/// The socket that the option names, else the one that the file names, even if the file has other faults:
/// the instance is the one to judge those.
fn control_path(arguments: &ReloadArguments) -> Result<PathBuf, String> {
    if let Some(path) = &arguments.control {
        return Ok(path.clone());
    }
    let (read, _) = match setup::read(&Origin::File(arguments.config.clone()), say::error_colors())
    {
        Ok(read) => read,
        Err(complaint) => {
            let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            let user = rustix::process::getuid().as_raw();
            let default = tollgate_config::default_control(user, folder.as_deref());
            if arguments.config.exists() && default.exists() {
                return Ok(default);
            }
            return Err(complaint);
        }
    };
    let off = || {
        "tollgate: error: control: is off in this configuration; send SIGHUP to the process instead\n".to_owned()
    };
    read.config
        .control
        .map(|control| control.value)
        .ok_or_else(off)
}

fn ask(path: &Path, allow_dearer: bool) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(if allow_dearer {
        b"reload allow-dearer-certificate\n".as_slice()
    } else {
        b"reload\n"
    })?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
