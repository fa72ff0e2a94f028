package identity

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
)

// Refuse is the Connect error for an answer that repeating the request cannot
// change: it carries a clusterv1.Refusal, and stops the client.
func Refuse(code connect.Code, kind clusterv1.RefusalKind, message, remedy string) error {
	err := connect.NewError(code, errors.New(message))
	detail, detailErr := connect.NewErrorDetail(&clusterv1.Refusal{Kind: kind, Message: message, Remedy: remedy})
	if detailErr != nil {
		return connect.NewError(connect.CodeInternal, fmt.Errorf("encode refusal: %w", detailErr))
	}
	err.AddDetail(detail)
	return err
}

// RefusalOf is the refusal that err carries, nil when it carries none: then
// the request may be repeated.
func RefusalOf(err error) *clusterv1.Refusal {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return nil
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if r, ok := v.(*clusterv1.Refusal); ok {
				return r
			}
		}
	}
	return nil
}

// UnknownBoot is the answer to a heartbeat of a boot that never joined (or
// whose join the cluster lost): the node should join again.
func UnknownBoot(bootID string) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("boot %q has not joined: join first", bootID))
}

// IsUnknownBoot recognises UnknownBoot on the client's side: the code without
// a Refusal.
func IsUnknownBoot(err error) bool {
	return connect.CodeOf(err) == connect.CodeFailedPrecondition && RefusalOf(err) == nil
}
