package operator

import (
	"encoding/json"
	"io"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/crash"
)

func TestBundleOutput(t *testing.T) {
	checkGoldens(t, "bundles-*.txtar", func(answer []byte) (any, func(io.Writer) error) {
		resp := new(clusterv1.ListBundlesResponse)
		if err := protojson.Unmarshal(answer, resp); err != nil {
			t.Fatal(err)
		}
		bundles := BundlesOf(resp)
		return bundles, func(w io.Writer) error { return WriteBundles(w, "n1", bundles, now) }
	})
	checkGoldens(t, "bundle-*.txtar", func(answer []byte) (any, func(io.Writer) error) {
		var r struct {
			crash.Record
			Trace, Log, Dmesg string
		}
		if err := json.Unmarshal(answer, &r); err != nil {
			t.Fatal(err)
		}
		r.Record.Trace, r.Record.Log, r.Record.Dmesg = []byte(r.Trace), []byte(r.Log), []byte(r.Dmesg)
		record, err := CrashRecordOf(answerOf(r.Record))
		if err != nil {
			t.Fatal(err)
		}
		return record, record.WriteText
	})
}

// answerOf is what a controller makes of a record.
func answerOf(r crash.Record) *clusterv1.GetBundleResponse {
	raw := r.Encode()
	b := &clusterv1.Bundle{Id: crash.ID(raw), Kind: string(r.Kind), Reason: r.Reason, BootId: r.BootID, Stage: r.Stage,
		Incarnation: r.Incarnation, Size: uint32(len(raw)), Received: timestamppb.New(now)}
	return &clusterv1.GetBundleResponse{Bundle: b, Record: raw}
}

func TestForeignBundleIsRefused(t *testing.T) {
	resp := answerOf(crash.Record{Kind: crash.Agent, Reason: "panic: a"})
	resp.Bundle.Id = "0123456789abcdef"
	if _, err := CrashRecordOf(resp); err == nil {
		t.Error("took another bundle than it asked for")
	}
	resp.Record[70] ^= 1
	if _, err := CrashRecordOf(resp); err == nil {
		t.Error("took a damaged record")
	}
}
