package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// The parts of an OCI image layout (OCI image specification 1.1: manifest.md,
// image-index.md) that say where the layers are.
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	Platform  *platform `json:"platform"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// document is a manifest or an index of manifests; the one has layers, the
// other manifests.
type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	Manifests     []descriptor `json:"manifests"`
	Layers        []descriptor `json:"layers"`
}

// maxLayers is what container runtimes take (127 in overlayfs of old kernels).
const maxLayers = 128

// parseDocument returns the layers of a manifest, or the one manifest of an
// index that is for this machine.
func parseDocument(text []byte) (layers []descriptor, manifest *descriptor, err error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, nil, fmt.Errorf("parse manifest: %w", err)
	}
	switch {
	case d.SchemaVersion != 2:
		return nil, nil, fmt.Errorf("parse manifest: schema version %d, want 2", d.SchemaVersion)
	case len(d.Layers) > maxLayers:
		return nil, nil, fmt.Errorf("parse manifest: %d layers, at most %d are taken", len(d.Layers), maxLayers)
	case len(d.Layers) > 0:
		return d.Layers, nil, checkDescriptors(d.Layers)
	}
	for i, m := range d.Manifests {
		if p := m.Platform; p == nil || p.OS == "linux" && p.Architecture == runtime.GOARCH {
			return nil, &d.Manifests[i], checkDescriptors(d.Manifests[i : i+1])
		}
	}
	if len(d.Manifests) > 0 {
		return nil, nil, fmt.Errorf("parse index: it has no manifest for linux/%s", runtime.GOARCH)
	}
	return nil, nil, errors.New("parse manifest: it has no layers")
}

func checkDescriptors(all []descriptor) error {
	for _, d := range all {
		hex, ok := strings.CutPrefix(d.Digest, "sha256:")
		if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
			return errors.New("parse manifest: a digest is not sha256: and 64 hex digits")
		}
		if strings.Contains(d.MediaType, "nondistributable") || strings.Contains(d.MediaType, "encrypted") {
			return fmt.Errorf("parse manifest: layer %s is of type %q", d.Digest, d.MediaType)
		}
	}
	return nil
}
