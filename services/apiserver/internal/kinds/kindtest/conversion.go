package kindtest

import (
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Convert returns an object as a conversion converts it.
func Convert[To scheme.Object](t testing.TB, conversion kinds.Conversion, obj scheme.Object) To {
	t.Helper()
	converted, err := conversion.One(obj)
	if err != nil {
		t.Fatal(err)
	}
	typed, ok := converted.(To)
	if !ok {
		t.Fatalf("the conversion of a %T gave a %T", obj, converted)
	}
	return typed
}
