package crash

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// MaxCore is what a core may take of a record, compressed, bytes: half of it.
const MaxCore = 128 << 10

// coreStep is how much of a core is compressed at a time. Each is a zstd frame of
// its own, so that what fits is readable to its end.
const coreStep = 256 << 10

// PackCore compresses the start of a core, as much of it as a record has room
// for, and returns how many of its bytes that is.
func PackCore(core io.Reader) (packed []byte, taken int, err error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, 0, fmt.Errorf("pack core: %w", err)
	}
	defer e.Close()
	step := make([]byte, coreStep)
	for {
		n, err := io.ReadFull(core, step)
		for n > 0 {
			frame := e.EncodeAll(step[:n], nil)
			if len(packed)+len(frame) <= MaxCore {
				packed, taken = append(packed, frame...), taken+n
				break
			}
			n /= 2 // what comes after it does not count any more
			err = io.EOF
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return packed, taken, nil
		}
		if err != nil {
			return packed, taken, fmt.Errorf("pack core: %w", err)
		}
	}
}

// maxUnpacked bounds what a core may grow to, bytes: zeros compress well.
const maxUnpacked = 256 << 20

// UnpackCore is what PackCore took.
func UnpackCore(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpack core: %w", err)
	}
	defer d.Close()
	core, err := io.ReadAll(io.LimitReader(d, maxUnpacked))
	if err != nil {
		return nil, fmt.Errorf("unpack core: %w", err)
	}
	return core, nil
}
