package service

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// digest is of all that makes a service what it is when it runs: the
// definition with its defaults, the content of its payload, and the secrets
// that its files are rendered with. Where it was defined, and by which
// generation of a document, makes no difference.
func digest(s Service, d *Definitions) string {
	s.Generation, s.Digest = 0, ""
	h := sha256.New()
	e := json.NewEncoder(h) // of plain values and structs: it cannot fail
	_ = e.Encode("reveille service v1")
	_ = e.Encode(s)
	if p, ok := d.Payload(s.Payload); ok {
		_ = e.Encode(p.Digest)
	}
	for _, f := range s.Files {
		for _, name := range secretsOf(f.Content) {
			text, _ := d.Secrets.Get(name)
			_ = e.Encode([]string{name, text})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
