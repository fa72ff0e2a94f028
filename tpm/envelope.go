package tpm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Mode is what a node does about its TPM. The cluster decides it at enrolment
// and the envelope carries it; it never follows from a failure.
type Mode string

const (
	// Required: no TPM, or one that does not open the config, stops the boot.
	Required Mode = "required"
	// Preferred: before enrolment, use a TPM if there is one; never stored for
	// an enrolled node, where it has become one of the others.
	Preferred Mode = "preferred"
	// Disabled: the config is a plain file.
	Disabled Mode = "disabled"
)

// Kind tells how an envelope's body is protected.
type Kind uint16

const (
	// Blank: nothing was stored yet. A preallocated copy starts as one, so that
	// a file full of zeros is never taken for "nothing was ever here".
	Blank Kind = 1 + iota
	// Plain: the body is clear text, checked against damage only.
	Plain
	// Sealed: the body is AES-256-GCM under a key that only a Slot opens.
	Sealed
)

// Header is readable before the body is open, and, in a sealed envelope,
// authenticated when it is opened. Until then it is a claim.
type Header struct {
	Generation uint64 `json:"generation"`
	Cluster    string `json:"cluster,omitempty"`
	Node       string `json:"node,omitempty"`
	Mode       Mode   `json:"mode,omitempty"`
	Phase      string `json:"phase,omitempty"`
	PCRs       PCRs   `json:"pcrs,omitempty"` // at the start of the boot that sealed
	Slots      []Slot `json:"slots,omitempty"`
}

// Envelope is a parsed file.
type Envelope struct {
	Kind   Kind
	Header Header

	prefix []byte // frame and header, the authenticated data
	body   []byte
}

// The frame. Its layout is the same in every version, so that an old release
// can tell a whole file of a newer one from a torn one.
//
//	0   8  magic
//	8   2  version       all numbers big endian
//	10  2  kind
//	12  4  header length
//	16  4  body length
//	20     header, body, SHA-256 of all that precedes
const (
	magic    = "RVLCONF\n"
	version  = 1
	frameLen = 20
	// maxPart bounds header and body each; the file that holds both has 64 KiB.
	maxPart = 64 << 10
	// tagLen is GCM's.
	tagLen = 16
)

// Encode frames a blank or plain envelope.
func Encode(kind Kind, h Header, body []byte) ([]byte, error) {
	if kind != Blank && kind != Plain {
		return nil, fmt.Errorf("encode envelope: kind %d needs a key", kind)
	}
	prefix, err := framePrefix(kind, h, len(body))
	if err != nil {
		return nil, err
	}
	return withSum(append(prefix, body...)), nil
}

// EncodeSealed encrypts body under dataKey, which must be fresh for each call:
// the nonce is derived from it.
func EncodeSealed(h Header, dataKey, body []byte) ([]byte, error) {
	prefix, err := framePrefix(Sealed, h, len(body)+tagLen)
	if err != nil {
		return nil, err
	}
	gcm, nonce, err := bodyCipher(dataKey)
	if err != nil {
		return nil, err
	}
	return withSum(gcm.Seal(prefix, nonce, body, prefix)), nil
}

func framePrefix(kind Kind, h Header, bodyLen int) ([]byte, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode envelope header: %w", err)
	}
	if len(head) > maxPart || bodyLen > maxPart {
		return nil, fmt.Errorf("encode envelope: header of %d and body of %d bytes, at most %d each", len(head), bodyLen, maxPart)
	}
	// Capacity for the rest: gcm.Seal must not move what it authenticates.
	b := make([]byte, 0, frameLen+len(head)+bodyLen+sha256.Size)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint16(b, uint16(kind))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, uint32(bodyLen))
	return append(b, head...), nil
}

func withSum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// bodyCipher derives key and nonce from the data key (RFC 5869).
func bodyCipher(dataKey []byte) (cipher.AEAD, []byte, error) {
	const keyLen, nonceLen = 32, 12
	okm, err := hkdf.Key(sha256.New, dataKey, nil, "reveille config v1 body", keyLen+nonceLen)
	if err != nil {
		return nil, nil, fmt.Errorf("derive body key: %w", err)
	}
	block, err := aes.NewCipher(okm[:keyLen])
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, okm[keyLen:], err
}

// Parse reads the envelope at the start of b; after it b may hold zeros only.
// Errors are Corrupt (torn, damaged, not ours) or Newer.
func Parse(b []byte) (*Envelope, error) {
	headLen, bodyLen, err := parseFrame(b)
	if err != nil {
		return nil, err
	}
	end := frameLen + headLen + bodyLen
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:end+sha256.Size]) {
		return nil, &Error{Outcome: Corrupt, Detail: "checksum differs"}
	}
	if pad := b[end+sha256.Size:]; bytes.Count(pad, []byte{0}) != len(pad) {
		return nil, &Error{Outcome: Corrupt, Detail: "padding is not zero"}
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != version {
		return nil, &Error{Outcome: Newer, Detail: fmt.Sprintf("file version %d, this release reads %d", v, version)}
	}
	e := &Envelope{
		Kind:   Kind(binary.BigEndian.Uint16(b[10:])),
		prefix: bytes.Clone(b[:frameLen+headLen]),
		body:   bytes.Clone(b[frameLen+headLen : end]),
	}
	return e, e.parseHeader()
}

// parseFrame checks the frame's lengths against what is there.
func parseFrame(b []byte) (headLen, bodyLen int, err error) {
	if len(b) < frameLen+sha256.Size || string(b[:len(magic)]) != magic {
		return 0, 0, &Error{Outcome: Corrupt, Detail: "no envelope"}
	}
	h, n := binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint32(b[16:])
	if h > maxPart || n > maxPart || frameLen+int(h)+int(n)+sha256.Size > len(b) {
		return 0, 0, &Error{Outcome: Corrupt, Detail: "lengths exceed the file"}
	}
	return int(h), int(n), nil
}

func (e *Envelope) parseHeader() error {
	if e.Kind < Blank || e.Kind > Sealed {
		return &Error{Outcome: Newer, Detail: fmt.Sprintf("envelope kind %d", e.Kind)}
	}
	if e.Kind == Sealed && len(e.body) < tagLen {
		return &Error{Outcome: Corrupt, Detail: "sealed body too short"}
	}
	dec := json.NewDecoder(bytes.NewReader(e.prefix[frameLen:]))
	dec.DisallowUnknownFields() // within one version there are none
	if err := dec.Decode(&e.Header); err != nil {
		return &Error{Outcome: Corrupt, Detail: "header", Err: err}
	}
	if dec.More() {
		return &Error{Outcome: Corrupt, Detail: "header has a tail"}
	}
	return nil
}

// PlainBody returns the body of an envelope that is not sealed.
func (e *Envelope) PlainBody() ([]byte, error) {
	if e.Kind == Sealed {
		return nil, fmt.Errorf("read envelope: it is sealed")
	}
	return e.body, nil
}

// Open decrypts a sealed body and authenticates the header with it.
func (e *Envelope) Open(dataKey []byte) ([]byte, error) {
	if e.Kind != Sealed {
		return nil, fmt.Errorf("open envelope: it is not sealed")
	}
	gcm, nonce, err := bodyCipher(dataKey)
	if err != nil {
		return nil, err
	}
	body, err := gcm.Open(nil, nonce, e.body, e.prefix)
	if err != nil {
		return nil, &Error{Outcome: Corrupt, Detail: "header or body is not what was sealed", Err: err}
	}
	return body, nil
}
