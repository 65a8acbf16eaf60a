//! What is known of the requests of a plan file while it is read.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use prony_plan::plan::{Calls, Checks, Group, Retry, Secret, Shared};
use prony_plan::target::{Endpoint, Url, UrlKind};

use super::reader::Problems;

/// The default server and the common parts of all requests.
#[derive(Debug, Default)]
pub struct Common {
    /// The base URL: endpoint, `Host` header and path of requests without their own.
    pub url: Option<Url>,
    /// The `Host` header.
    pub host: Option<Arc<str>>,
    /// Headers before the request's own, which replace those with the same name.
    pub headers: Shared<(String, String)>,
    /// Whether to send only the given headers.
    pub bare: bool,
}

/// Reads requests, and collects their endpoints and names.
#[derive(Debug)]
pub(super) struct Requests<'a> {
    pub(super) problems: Problems<'a>,
    /// The base of file names; `None` if the plan must not name files.
    pub(super) folder: Option<&'a Path>,
    pub(super) common: Common,
    /// The destination of paths, set at the first use.
    pub(super) base: Option<Goal>,
    pub(super) endpoints: Vec<Endpoint>,
    /// Whether the file lists its endpoints, so that requests can refer to them by number.
    pub(super) listed: bool,
    pub(super) calls: Calls,
    /// The known positions of the requests in the file.
    pub(super) places: Vec<usize>,
    pub(super) names: Names,
    pub(super) checks: Checks,
    pub(super) groups: Vec<Group>,
    /// Whether the steps of a group are read.
    pub(super) in_group: bool,
    /// The number of the kind of session that is read.
    pub(super) kind: u32,
    /// Whether a URL is one of gRPC.
    pub(super) is_grpc: bool,
    /// Whether a URL is one of HTTP.
    pub(super) is_http: bool,
    /// Whether a URL of a request is one of WebSocket.
    pub(super) is_websocket: bool,
    /// Whether a request goes to a path on the server that the file names at its top.
    pub(super) has_requests: bool,
    /// Whether sessions have steps on a WebSocket.
    pub(super) has_sockets: bool,
    /// Whether a session is read, and not the list of requests.
    pub(super) in_session: bool,
    /// The names of the WebSockets that the session which is read has opened so far, and the
    /// endpoint of the last `open` of each.
    pub(super) sockets: Vec<(Option<Arc<str>>, u32)>,
    /// Whether redirects of any request are followed.
    pub(super) is_redirected: bool,
    /// How failed requests of steps without their own `retry` are made again.
    pub(super) retry: Option<Retry>,
}

/// The names of requests, each once.
#[derive(Debug, Default)]
pub(super) struct Names {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    /// The index of the name, which is added if it is new.
    pub(super) fn intern(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.list.len() as u32;
        self.index.insert(name.to_owned(), index);
        self.list.push(name.to_owned());
        index
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.list
    }
}

/// The destination of a request.
#[derive(Debug)]
pub(super) struct Goal {
    pub(super) endpoint: u32,
    pub(super) path: String,
    pub(super) authority: Arc<str>,
    pub(super) user: Option<(String, Secret)>,
}

/// The `Host` header of requests to an endpoint without a URL.
pub(super) fn authority(endpoint: &Endpoint) -> String {
    let tls = endpoint.tls_name().is_some();
    match endpoint.transport() {
        Endpoint::Tcp { host, port } => {
            let url = Url {
                tls,
                host: host.clone(),
                port: *port,
                path: "/".into(),
                user: None,
                kind: UrlKind::Http,
            };
            url.authority()
        }
        _ => "localhost".into(),
    }
}
