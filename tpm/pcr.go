package tpm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-tpm/tpm2"
)

// PCR is one register of the SHA-256 bank.
type PCR struct {
	Index  int
	Digest [sha256.Size]byte
}

// PCRs is a snapshot of registers, ordered by index.
type PCRs []PCR

// phasePCR counts the phases of a boot: it is extended after the config was
// opened (and by a UKI's stub before that), so that later code cannot open it.
const phasePCR = 11

// snapshotPCRs are the registers that can take part in a binding: 4 boot
// loader, 7 Secure Boot policy, 12 kernel command line (UKI stub), and the
// phase register. 0-3, 5 and 9 change with harmless firmware settings, 10 is
// IMA's. Eight is the most that one TPM2_PCR_Read returns.
var snapshotPCRs = []int{4, 7, phasePCR, 12}

// separatorOnly is a register that firmware closed without measuring anything:
// one EV_SEPARATOR of four zero bytes (PC Client firmware profile, 3.3.2.2).
var separatorOnly = extend([sha256.Size]byte{}, sha256.Sum256(make([]byte, 4)))

// Get returns the register with that index.
func (p PCRs) Get(index int) (PCR, bool) {
	i := slices.IndexFunc(p, func(r PCR) bool { return r.Index == index })
	if i < 0 {
		return PCR{}, false
	}
	return p[i], true
}

// Indices lists the registers.
func (p PCRs) Indices() []int {
	out := make([]int, 0, len(p))
	for _, r := range p {
		out = append(out, r.Index)
	}
	return out
}

// bindable picks the registers that a literal policy can bind: measured ones
// (neither all zero nor all 0xFF, the reset values of TPM 2.0 part 1, 17.2),
// and the phase register whatever it holds.
func (p PCRs) bindable() PCRs {
	var out PCRs
	for _, r := range p {
		if r.Index == phasePCR || r.measured() {
			out = append(out, r)
		}
	}
	return out
}

func (r PCR) measured() bool {
	first := r.Digest[0]
	if first != 0 && first != 0xFF {
		return true
	}
	return !bytes.Equal(r.Digest[:], bytes.Repeat([]byte{first}, len(r.Digest)))
}

// Binding says what a literal policy over these registers binds, in words for
// an operator: it is shown wherever the node's seal is.
func (p PCRs) Binding() string {
	bound := p.bindable()
	if len(bound) == 1 {
		return fmt.Sprintf("PCR %d only (no measured boot), fragile", phasePCR)
	}
	var idle PCRs
	for _, r := range bound {
		if r.Digest == separatorOnly {
			idle = append(idle, r)
		}
	}
	if len(idle) > 0 {
		return fmt.Sprintf("PCRs %s (fragile; %s hold no measurement)", indexList(bound), indexList(idle))
	}
	return fmt.Sprintf("PCRs %s (fragile)", indexList(bound))
}

func indexList(p PCRs) string {
	var s []string
	for _, r := range p {
		s = append(s, strconv.Itoa(r.Index))
	}
	return strings.Join(s, ",")
}

// diff describes the registers of p whose value in now differs.
func (p PCRs) diff(now PCRs) []string {
	var out []string
	for _, was := range p {
		is, ok := now.Get(was.Index)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("PCR %d (sealed %x.., now unread)", was.Index, was.Digest[:4]))
		case is != was:
			out = append(out, fmt.Sprintf("PCR %d (sealed %x.., now %x..)", was.Index, was.Digest[:4], is.Digest[:4]))
		}
	}
	return out
}

// leadsTo tells whether extending the phase register of p with that phase, and
// nothing else, gives now.
func (p PCRs) leadsTo(now PCRs, phase string) bool {
	want := slices.Clone(p)
	for i := range want {
		if want[i].Index == phasePCR {
			want[i].Digest = extend(want[i].Digest, phaseDigest(phase))
		}
	}
	return slices.Equal(want, now)
}

// extend is what TPM2_PCR_Extend does to a register.
func extend(register, digest [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(append(register[:], digest[:]...))
}

// phaseDigest is what ExtendPhase extends the phase register with.
func phaseDigest(phase string) [sha256.Size]byte {
	return sha256.Sum256([]byte("reveille phase: " + phase))
}

// policyDigest is the digest of TPM2_PolicyPCR over these values (TPM 2.0 part
// 3, 23.7), computed here so that a config can be sealed again for the values
// of this boot's start after the phase register moved on.
func (p PCRs) policyDigest() ([]byte, error) {
	h := sha256.New()
	for _, r := range p {
		h.Write(r.Digest[:])
	}
	calc, err := tpm2.NewPolicyCalculator(tpm2.TPMAlgSHA256)
	if err != nil {
		return nil, err
	}
	cmd := tpm2.PolicyPCR{PcrDigest: tpm2.TPM2BDigest{Buffer: h.Sum(nil)}, Pcrs: selection(p.Indices())}
	if err := cmd.Update(calc); err != nil {
		return nil, err
	}
	return calc.Hash().Digest, nil
}

func selection(indices []int) tpm2.TPMLPCRSelection {
	var u []uint
	for _, i := range indices {
		u = append(u, uint(i))
	}
	return tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{
		Hash:      tpm2.TPMAlgSHA256,
		PCRSelect: tpm2.PCClientCompatible.PCRs(u...),
	}}}
}

// readPCRs reads registers of the SHA-256 bank. A TPM may return fewer than
// asked for, and says so in its selection: it is asked again for the rest.
func (t *TPM) readPCRs(ctx context.Context, indices []int) (PCRs, error) {
	var out PCRs
	for rest := slices.Clone(indices); len(rest) > 0; {
		rsp, err := tpm2.PCRRead{PCRSelectionIn: selection(rest)}.Execute(t.conn(ctx))
		if err != nil {
			return nil, fmt.Errorf("read PCRs %v: %w", rest, t.classify(ctx, err))
		}
		got := selected(rsp.PCRSelectionOut, rest)
		if len(got) == 0 {
			return nil, &Error{Outcome: NoSHA256}
		}
		if len(got) != len(rsp.PCRValues.Digests) {
			return nil, &Error{Outcome: Unresponsive, Detail: fmt.Sprintf("%d digests for %d PCRs", len(rsp.PCRValues.Digests), len(got))}
		}
		for i, index := range got {
			if len(rsp.PCRValues.Digests[i].Buffer) != sha256.Size {
				return nil, &Error{Outcome: NoSHA256}
			}
			out = append(out, PCR{index, [sha256.Size]byte(rsp.PCRValues.Digests[i].Buffer)})
		}
		rest = slices.DeleteFunc(rest, func(i int) bool { return slices.Contains(got, i) })
	}
	slices.SortFunc(out, func(a, b PCR) int { return a.Index - b.Index })
	return out, nil
}

// selected lists, in order, which of the wanted registers a response selects.
func selected(sel tpm2.TPMLPCRSelection, want []int) []int {
	var out []int
	for _, s := range sel.PCRSelections {
		if s.Hash != tpm2.TPMAlgSHA256 {
			continue
		}
		for _, i := range want {
			if i/8 < len(s.PCRSelect) && s.PCRSelect[i/8]&(1<<(i%8)) != 0 {
				out = append(out, i)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type pcrJSON struct {
	Index  int    `json:"index"`
	Digest string `json:"digest"`
}

// MarshalJSON writes the digest in hex, as every TPM tool prints it.
func (r PCR) MarshalJSON() ([]byte, error) {
	return json.Marshal(pcrJSON{r.Index, hex.EncodeToString(r.Digest[:])})
}

// UnmarshalJSON is the inverse; anything but 0..23 and 64 hex digits is refused.
func (r *PCR) UnmarshalJSON(b []byte) error {
	var j pcrJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	d, err := hex.DecodeString(j.Digest)
	if err != nil || len(d) != sha256.Size || j.Index < 0 || j.Index > 23 {
		return fmt.Errorf("parse PCR %d: want 0 to 23 and %d hex digits", j.Index, 2*sha256.Size)
	}
	r.Index, r.Digest = j.Index, [sha256.Size]byte(d)
	return nil
}
