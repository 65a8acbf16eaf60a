//! Frames as bytes (RFC 6455, section 5.2).

use super::Violation;

/// Which side of a connection an endpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It has opened the connection.
    #[default]
    Client,
    /// It has accepted the connection.
    Server,
}

/// The maximum payload of a control frame in bytes.
pub const CONTROL_MAX: usize = 125;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// The next part of a message.
    Continuation = 0x0,
    /// A text message, or its first part.
    Text = 0x1,
    /// A binary message, or its first part.
    Binary = 0x2,
    /// The last frame of an endpoint.
    Close = 0x8,
    /// A frame that the peer answers.
    Ping = 0x9,
    /// The answer to a ping.
    Pong = 0xA,
}

/// The head of a frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the frame is.
    pub opcode: Opcode,
    /// Whether it is the last one of its message.
    pub is_final: bool,
    /// Whether it is the first one of a compressed message.
    pub is_compressed: bool,
    /// The bytes with which its payload is masked; those of the first byte are the highest.
    pub mask: Option<u32>,
    /// The length of its payload in bytes.
    pub length: u64,
}

/// A frame that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub opcode: Opcode,
    /// Whether it is the last one of its message.
    pub is_final: bool,
    /// The bytes with which its payload is masked. A client masks each frame with other bytes, a
    /// server none.
    pub mask: Option<u32>,
}

/// The reserved bit of compressed messages, in the first byte.
const COMPRESSED: u8 = 0x40;

impl Opcode {
    fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }

    /// Whether it is that of a control frame.
    #[inline]
    pub fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

impl Head {
    /// Read the head of a frame that an endpoint with this role receives, and its length. `None`:
    /// it is not complete. A violation is found as soon as the bytes before it show it. `deflates`:
    /// messages may be compressed.
    ///
    /// # Errors
    /// The violation of the protocol in it.
    pub fn parse(
        role: Role,
        deflates: bool,
        data: &[u8],
    ) -> Result<Option<(Self, usize)>, Violation> {
        let Some(&first) = data.first() else { return Ok(None) };
        let is_compressed = first & COMPRESSED != 0;
        if first & 0x30 != 0 || (is_compressed && !deflates) {
            return Err(Violation::ReservedBit);
        }
        let opcode = Opcode::of(first & 0x0F).ok_or(Violation::Opcode)?;
        if is_compressed && !matches!(opcode, Opcode::Text | Opcode::Binary) {
            return Err(Violation::ReservedBit);
        }
        let is_final = first & 0x80 != 0;
        if opcode.is_control() && !is_final {
            return Err(Violation::FragmentedControl);
        }
        let Some(&second) = data.get(1) else { return Ok(None) };
        let is_masked = second & 0x80 != 0;
        if is_masked != (role == Role::Server) {
            return Err(Violation::Mask);
        }
        let short = second & 0x7F;
        if opcode.is_control() && usize::from(short) > CONTROL_MAX {
            return Err(Violation::LongControl);
        }
        let (length, at) = match short {
            126 => {
                let Some(bytes) = data[2..].first_chunk::<2>() else { return Ok(None) };
                (u64::from(u16::from_be_bytes(*bytes)), 4)
            }
            127 => {
                let Some(bytes) = data[2..].first_chunk::<8>() else { return Ok(None) };
                (u64::from_be_bytes(*bytes), 10)
            }
            short => (u64::from(short), 2),
        };
        let is_minimal = match short {
            126 => length > CONTROL_MAX as u64,
            127 => length > u64::from(u16::MAX) && length >> 63 == 0,
            _ => true,
        };
        if !is_minimal {
            return Err(Violation::Length);
        }
        if !is_masked {
            return Ok(Some((Self { opcode, is_final, is_compressed, mask: None, length }, at)));
        }
        let Some(bytes) = data[at..].first_chunk::<4>() else { return Ok(None) };
        let mask = Some(u32::from_be_bytes(*bytes));
        Ok(Some((Self { opcode, is_final, is_compressed, mask, length }, at + 4)))
    }
}

impl Frame {
    /// Append the frame with this payload.
    pub fn write(&self, payload: &[u8], out: &mut Vec<u8>) {
        out.push(u8::from(self.is_final) << 7 | self.opcode as u8);
        let masked = u8::from(self.mask.is_some()) << 7;
        let length = payload.len() as u64;
        match length {
            0..=125 => out.push(masked | length as u8),
            126..=0xFFFF => {
                out.push(masked | 126);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                out.push(masked | 127);
                out.extend_from_slice(&length.to_be_bytes());
            }
        }
        let Some(bits) = self.mask else {
            out.extend_from_slice(payload);
            return;
        };
        out.extend_from_slice(&bits.to_be_bytes());
        let at = out.len();
        out.extend_from_slice(payload);
        mask(&mut out[at..], bits, 0);
    }
}

impl Frame {
    /// Append the frame with the payload of a compressed message.
    pub fn write_compressed(&self, payload: &[u8], out: &mut Vec<u8>) {
        let at = out.len();
        self.write(payload, out);
        out[at] |= COMPRESSED;
    }
}

/// Mask bytes, or remove their mask. `offset` is how many bytes of the payload are before them.
pub fn mask(bytes: &mut [u8], bits: u32, offset: u64) {
    let bits = bits.rotate_left(8 * (offset % 4) as u32);
    let wide = (u64::from(bits) << 32 | u64::from(bits)).to_be_bytes();
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ u64::from_ne_bytes(wide)).to_ne_bytes();
    }
    for (byte, bits) in rest.iter_mut().zip(wide) {
        *byte ^= bits;
    }
}
