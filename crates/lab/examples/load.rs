//! The load generator without the rest of the binary: `load MODE HOST:PORT [options]`, and
//! `load backend ADDRESS [--pin N]` for the plaintext backend. For work on this room alone.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use tokio::task::LocalSet;
use tollgate_lab::backend::{Listening, serve};
use tollgate_lab::{LoadOptions, Mode, run};
use tollgate_terms::{CipherSuite, NamedGroup, TlsVersion};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match start(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}

fn start(arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let [word, target, rest @ ..] = arguments else {
        return Err("load tps|requests|download|hold|backend HOST:PORT [options]".into());
    };
    if word == "backend" {
        return runtime.block_on(LocalSet::new().run_until(async {
            let listening = match target.strip_prefix("unix:") {
                Some(path) => Listening::Unix(tokio::net::UnixListener::bind(path)?),
                None => Listening::Tcp(tokio::net::TcpListener::bind(target).await?),
            };
            serve(listening).await?;
            Ok(true)
        }));
    }
    let mode = Mode::from_name(word).ok_or("no such mode")?;
    let mut options = LoadOptions::new(mode, target);
    let json = read(rest, &mut options)?;
    let result = runtime.block_on(run(options))?;
    if json {
        println!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        print!("{result}");
    }
    Ok(result.reached())
}

fn read(arguments: &[String], options: &mut LoadOptions) -> Result<bool, Box<dyn Error>> {
    let mut json = false;
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--json" => json = true,
            "--insecure" => options.insecure = true,
            "--rsa-only" => options.rsa_only = true,
            "--tls12" => options.version = Some(TlsVersion::Tls12),
            "--tls13" => options.version = Some(TlsVersion::Tls13),
            "--hit-rate" => options.hit_rate = value()?.parse()?,
            "--connections" => options.connections = value()?.parse()?,
            "--count" => options.count = value()?.parse()?,
            "--pin" => options.pin = Some(value()?.parse()?),
            "--rate" => options.rate = Some(value()?.parse()?),
            "--watch" => options.watch.push(value()?.parse()?),
            "--path" => options.path = value()?.clone(),
            "--server-name" => options.server_name = Some(value()?.clone()),
            "--ca" => options.ca = Some(value()?.into()),
            "--alpn" => options.alpn = vec![value()?.clone()],
            "--suite" => {
                options.suite = Some(CipherSuite::from_name(value()?).ok_or("no such suite")?);
            }
            "--group" => {
                options.group = Some(NamedGroup::from_name(value()?).ok_or("no such group")?);
            }
            "--duration" => options.duration = seconds(value()?)?,
            "--warm-up" => options.warm_up = seconds(value()?)?,
            other => return Err(format!("{other} is no option").into()),
        }
    }
    Ok(json)
}

fn seconds(text: &str) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::try_from_secs_f64(
        text.trim_end_matches('s').parse()?,
    )?)
}
