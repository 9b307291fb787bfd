package custom_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
)

// TestBound evaluates expressions in the environment that the libraries extend.
func TestBoundQuantities(t *testing.T) {
	for range 2 {
		if err := custom.BoundQuantities(); err != nil {
			t.Fatal(err)
		}
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend()
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range []*cel.Env{set.NewExpressionsEnv(), set.StoredExpressionsEnv()} {
		for text, want := range map[string]string{
			`sign(quantity("1e-3000" + "000")) == 0`:                        "exponent of more than 3 digits",
			`isQuantity("1e-3000000")`:                                      "false",
			`quantity(dyn("1e300000000")) == quantity("1")`:                 "exponent of more than 3 digits",
			`["1e300000000"].all(x, quantity(x).isLessThan(quantity("1")))`: "exponent of more than 3 digits",
			`isQuantity(dyn("1e300000000"))`:                                "false",
			`isQuantity("1e300") && isQuantity(dyn("1.5Gi"))`:               "true",
			`isQuantity("abc")`:                                             "false",
			`quantity("abc").isInteger()`:                                   "quantities must match",
			`quantity("1").add(quantity("2")).asInteger() == 3`:             "true",
			`quantity("1e3").compareTo(quantity("1k")) == 0`:                "true",
			`quantity(dyn(1)).isInteger()`:                                  "no such overload",
			`isQuantity(dyn(1))`:                                            "no such overload",
		} {
			got := valueOf(t, env, text)
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
		}
	}
}

// valueOf returns the value of an expression, or its error, as a text.
func valueOf(t *testing.T, env *cel.Env, text string) string {
	t.Helper()
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		return issues.Err().Error()
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(map[string]any{})
	if err != nil {
		return err.Error()
	}
	if value.Value() == true {
		return "true"
	}
	return "false"
}
