package custom

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/libs/quantity"
)

// boundQuantities guards the library's environment, which is a global variable.
var boundQuantities = sync.OnceValue(func() error {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	bounded, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: utilversion.MajorMinor(1, 0),
		ProgramOptions:    []cel.ProgramOption{cel.CustomDecoratorV2(boundCall)},
	})
	if err != nil {
		return fmt.Errorf("bounding the quantities of expressions: %w", err)
	}
	// The libraries that compile the rules of custom kinds take no environment from their callers, but all extend this one.
	*base = *bounded
	return nil
})

// BoundQuantities makes quantity() fail, and isQuantity() return false, for what would be costly. It applies to all
// expressions of the process, those of policies and of webhooks too, and must be called before any is compiled. Later calls do nothing.
func BoundQuantities() error { return boundQuantities() }

// boundCall replaces the calls that parse a quantity. Their costs stay as the library counts them.
func boundCall(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 1 {
		return node, nil
	}
	switch call.Function() {
	case "quantity":
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), parseQuantity), nil
	case "isQuantity":
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), isQuantity), nil
	}
	return node, nil
}

func parseQuantity(args ...ref.Val) ref.Val {
	text, ok := args[0].Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	found, err := quantity.Parse(text)
	if err != nil {
		return types.WrapErr(err)
	}
	return apiservercel.Quantity{Quantity: &found}
}

func isQuantity(args ...ref.Val) ref.Val {
	text, ok := args[0].Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	_, err := quantity.Parse(text)
	return types.Bool(err == nil)
}
