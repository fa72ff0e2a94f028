package service

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxDocument bounds the cluster's document of one node.
	MaxDocument = 256 << 10
	// maxPacked is what a node keeps of it with the wishes, in its sealed
	// config: that has 64 KiB for all, a third of which base64 takes, and the
	// directory's part is not ours.
	maxPacked = 24 << 10
)

// Pack makes a desired configuration small enough for the sealed config, where
// its secrets are safe; the error says by how much it is too large.
func Pack(desired []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(desired); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() > maxPacked {
		return nil, fmt.Errorf("the desired configuration has %d bytes when compressed, a node keeps at most %d in its sealed config", out.Len(), maxPacked)
	}
	return out.Bytes(), nil
}

// Unpack is what was packed.
func Unpack(packed []byte) ([]byte, error) {
	const most = 2 * MaxDocument // the wishes come beside the document
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), most+1))
	if err != nil {
		return nil, fmt.Errorf("unpack desired configuration: %w", err)
	}
	if len(b) > most {
		return nil, errors.New("unpack desired configuration: it has no end")
	}
	return b, nil
}
