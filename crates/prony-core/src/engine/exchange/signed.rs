//! Requests that are signed when they are sent, whatever else is decided.

use prony_base::units::Nanos;
use prony_plan::plan::{CallSpec, Plan, Shared};
use prony_plan::script::{Filled, VIRTUAL_EPOCH};
use prony_plan::vars::{BodyDigest, Signer, ToSign, body_digest};

/// What signs the requests of a plan.
#[derive(Debug)]
pub(in crate::engine) struct Signed {
    signer: Signer,
    calls: Shared<CallSpec>,
    /// The digest of each call's body in the plan, once it is known.
    bodies: Vec<Option<Box<BodyDigest>>>,
    /// When the run starts, in nanoseconds since 1970.
    pub(super) epoch: u64,
    /// Scratch.
    filled: Filled,
    /// Scratch: the lines that sign a request.
    lines: Vec<u8>,
}

impl Signed {
    /// Returns `None` if the plan signs no requests.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let signing = plan.aws_sigv4.as_deref()?;
        let key = signing.key(&plan.data.environment).expect("the plan is valid");
        Some(Self {
            signer: Signer::new(&signing.region, &signing.service, key),
            calls: plan.calls.clone(),
            bodies: vec![None; plan.calls.len()],
            epoch: VIRTUAL_EPOCH,
            filled: Filled::default(),
            lines: Vec::new(),
        })
    }

    /// Whether the requests of a call are signed.
    pub(super) fn signs(&self, call: u32) -> bool {
        self.calls[call as usize].is_signable()
    }

    /// A request of this call, whose parts so far are `parts`.
    pub(super) fn fill(&mut self, call: u32, parts: Option<&Filled>, now: Nanos) -> &Filled {
        match parts {
            Some(parts) => self.filled.copy(parts),
            None => self.filled.clear(),
        }
        // Another server, to which a redirect has led, gets no signature.
        let has_moved = self.filled.moved().is_some_and(|moved| moved.authority.is_some());
        if self.signs(call) && !has_moved {
            self.sign(call, self.epoch.saturating_add(now.0));
        }
        &self.filled
    }

    /// Sign the request in `filled`.
    fn sign(&mut self, call: u32, unix_ns: u64) {
        let spec = &self.calls[call as usize];
        let known = &mut self.bodies[call as usize];
        let own = self.filled.body().map(body_digest);
        let body = match &own {
            Some(digest) => digest,
            None => &**known.get_or_insert_with(|| Box::new(body_digest(&spec.body))),
        };
        let filled = &self.filled;
        let is_get = filled.moved().is_some_and(|moved| moved.is_get);
        let of_plan = spec.headers.iter().enumerate();
        let of_plan = of_plan.filter(|(_, (name, _))| !filled.omits(name));
        let of_plan = of_plan.map(|(index, (name, value))| {
            (name.as_bytes(), filled.header(index).unwrap_or(value.as_bytes()))
        });
        let request = ToSign {
            method: if is_get { b"GET" } else { spec.method.as_bytes() },
            path: filled.path().unwrap_or(spec.path.as_bytes()),
            host: spec.authority.as_bytes(),
            body,
        };
        self.lines.clear();
        let headers = of_plan.chain(filled.header_lines());
        self.signer.sign(request, headers, unix_ns, &mut self.lines);
        self.filled.add_lines(&self.lines);
    }
}
