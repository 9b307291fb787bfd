package values

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestNumbers(t *testing.T) {
	for text, want := range map[string]struct {
		number  int
		percent bool
	}{"5%": {5, true}, "0%": {0, true}, "150%": {150, true}, "123": {123, false}, "": {0, false}, "a%": {0, false}, "http": {0, false}, "-5%": {0, false}} {
		value := intstr.FromString(text)
		if _, ok := Percent(&value); Number(&value) != want.number || ok != want.percent {
			t.Errorf("%q: got %d, a percentage: %v", text, Number(&value), ok)
		}
	}
	if five := intstr.FromInt32(5); Number(&five) != 5 || Number(nil) != 0 {
		t.Error("a number is not itself")
	}
}
