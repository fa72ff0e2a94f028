package payload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// verified reads a blob whose digest is known only at its end; it gives up with
// ctx.
type verified struct {
	ctx  context.Context
	r    io.Reader
	hash hash.Hash
}

func verify(ctx context.Context, r io.Reader) *verified {
	return &verified{ctx, r, sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	if err := v.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := v.r.Read(p)
	v.hash.Write(p[:n])
	return n, err
}

// check reads the rest, and compares the digest.
func (v *verified) check(digest string) error {
	if _, err := io.Copy(io.Discard, v); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(v.hash.Sum(nil)); got != digest {
		return fmt.Errorf("its digest is %s, not %s", got, digest)
	}
	return nil
}

// maxWindow is what `zstd --long=27` needs, and all that RFC 8878 wants decoders
// of ordinary data to have is 8 MiB.
const maxWindow = 128 << 20

// decompress goes by the first bytes, for names and media types are often
// wrong.
func decompress(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("decompress: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, fmt.Errorf("decompress: %w", err)
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}
