package quantity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/quantity"
)

// TestParse parses what is a quantity, and refuses what would be a costly one before it is parsed.
func TestParse(t *testing.T) {
	ones := strings.Repeat("1", 300)
	for text, want := range map[string]string{
		"1": "1", "1.5Gi": "1536Mi", "-100m": "-100m", "1e3": "1e3", "1E3": "1E3", "1e0003": "1e0003", "+1e-3": "+1e-3", "1e999": "", ones: "", "1." + ones + "e-999": "",
		"1e-999": "1e-9", "123456789012345678901234567890": "123456789012345678901234567890",
		"1e1000": "exponent", "1e-3000000": "exponent", "1E+30000000": "exponent", "1.e12345": "exponent", ".5e12345": "exponent", "e30000000": "exponent",
		"-1e300000000": "exponent", "+.e-30000": "exponent", "1e4294967296": "exponent", "  1e30000\t": "exponent", "\u20031e30000\u00a0": "exponent",
		ones + "1": "more than 300 digits", "." + ones + "1": "more than 300 digits", ones + "1Ki": "more than 300 digits", "-0." + ones + "1e-999": "more than 300 digits",
		"1e" + strings.Repeat("0", 300) + "1": "more than 300 digits",
		"":                                    "must match", "1e30000x": "must match", ones + "1x": "must match", "abc": "must match", "1e30000Ki": "must match", ones + "1.1.1": "must match",
	} {
		found, err := quantity.Parse(text)
		costly := (*quantity.CostlyError)(nil)
		switch {
		case err == nil && want != "" && found.String() != want, err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, %v, want %q", text, found.String(), err, want)
		case errors.As(err, &costly) != (want == "exponent" || strings.HasPrefix(want, "more")):
			t.Errorf("%q: got a %T", text, err)
		case costly != nil && len(costly.Error()) > 150:
			t.Errorf("%q: the error has %d bytes", text, len(costly.Error()))
		}
	}
}
