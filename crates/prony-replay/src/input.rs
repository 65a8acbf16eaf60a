//! Files, pipes and compressed files as streams of bytes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const CHUNK: usize = 256 << 10;

/// A stream of bytes.
pub type Bytes = Box<dyn Read + Send>;

/// Whether this name stands for standard input, which can be read once only.
pub(crate) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a log, by the ending of its name: gzip (`.gz`), zstd (`.zst`) or plain; `-` is standard
/// input.
///
/// # Errors
/// It cannot be opened.
pub fn open(path: &Path) -> io::Result<Bytes> {
    if is_pipe(path) {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    Ok(match ending {
        Some("gz") => Box::new(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, file))),
        Some("zst" | "zstd") => Box::new(Zstd::new(BufReader::with_capacity(CHUNK, file))),
        _ => Box::new(file),
    })
}

/// All frames of a zstd stream, one after the other.
struct Zstd<R> {
    source: BufReader<R>,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: Read> Zstd<R> {
    fn new(source: BufReader<R>) -> Self {
        Self { source, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Begins the next frame. Returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame {
                self.in_frame = self.begin()?;
                if !self.in_frame {
                    return Ok(0);
                }
            }
            let wanted = BlockDecodingStrategy::UptoBytes(buf.len());
            if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder.decode_blocks(&mut self.source, wanted).map_err(io::Error::other)?;
            }
            match self.decoder.read(buf)? {
                0 if self.decoder.is_finished() => self.in_frame = false,
                0 => {}
                n => return Ok(n),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn text() -> Vec<u8> {
        (0..300_000_u32)
            .flat_map(|i| format!("line {}\n", i.wrapping_mul(i)).into_bytes())
            .collect()
    }

    #[test]
    fn members_of_gzip_and_frames_of_zstd_follow_each_other() {
        let text = text();
        let (a, b) = text.split_at(1_000_000);
        let gzip = |part: &[u8]| {
            let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
            gz.write_all(part).expect("memory");
            gz.finish().expect("memory")
        };
        let zstd = |part: &[u8]| compress_to_vec(part, CompressionLevel::Fastest);
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in [
            ("a.log", text.clone()),
            ("a.log.gz", [gzip(a), gzip(b)].concat()),
            ("a.log.zst", [zstd(a), skipped, zstd(b)].concat()),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            let mut read = Vec::new();
            open(&path).expect("a file").read_to_end(&mut read).expect("readable");
            assert!(read == text, "{name}");
        }
        let cut = folder.path().join("cut.zst");
        std::fs::write(&cut, &zstd(a)[..5_000]).expect("written");
        assert!(open(&cut).expect("a file").read_to_end(&mut Vec::new()).is_err());
        assert!(open(folder.path()).is_err());
    }
}
