package operator

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"reveille/boot/identity"
)

// Explain turns a failed call into what an operator can use: what was asked
// for (doing: "remove node n1"), what is wrong, what to do next.
func Explain(doing string, err error) error {
	if r := identity.RefusalOf(err); r != nil {
		return fmt.Errorf("%s: %s; %s", doing, r.GetMessage(), r.GetRemedy())
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch {
	case connect.IsWireError(ce):
		return fmt.Errorf("%s: %s", doing, ce.Message())
	case ce.Code() == connect.CodeDeadlineExceeded:
		return fmt.Errorf("%s: no answer in time; see the controller's log", doing)
	case ce.Code() == connect.CodeUnavailable:
		return fmt.Errorf("%s: no controller of the context answers: %w; is one running there?", doing, ce.Unwrap())
	}
	return fmt.Errorf("%s: %w", doing, err)
}
