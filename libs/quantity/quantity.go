// Package quantity bounds what the parsing of a quantity may cost.
//
// resource.ParseQuantity takes a time that is quadratic in the digits of a text and in its exponent: "1e-30000000"
// takes seconds, "1e300000000" parses at once but is never compared. The functions here find such texts before
// anything parses them. kube-apiserver has no such bound.
package quantity

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent is how many digits the exponent of a quantity may have, without leading zeros.
const maxExponent = 3

// maxDigits is how many digits a quantity may have before its point, after it, and in its exponent.
const maxDigits = 300

// maxShown is how many bytes of a quantity an error shows.
const maxShown = 40

// CostlyError refuses a quantity.
type CostlyError struct{ text, fault string }

// Error names the quantity, shortened, and what is wrong with it.
func (e *CostlyError) Error() string {
	shown := e.text
	if len(shown) > maxShown {
		shown = shown[:maxShown] + "..."
	}
	return fmt.Sprintf("quantity %q has %s", shown, e.fault)
}

// Parse is resource.ParseQuantity, but refuses what would be costly with a *CostlyError.
func Parse(text string) (resource.Quantity, error) {
	if err := Costly(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text) //nolint:wrapcheck // It takes the place of the library's function.
}

// Costly returns a *CostlyError if a text may be a quantity that is costly to parse, compare or print; else nil. It takes a
// time that is linear in the text at most, and stops at the first byte that no quantity has.
func Costly(text string) error {
	text = strings.TrimSpace(text)
	rest := strings.TrimPrefix(text, "-")
	if rest == text {
		rest = strings.TrimPrefix(text, "+")
	}
	whole := digits(rest)
	rest = rest[whole:]
	fraction := 0
	if strings.HasPrefix(rest, ".") {
		fraction = digits(rest[1:])
		rest = rest[1+fraction:]
	}
	power := 0
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		after := strings.TrimLeft(rest[1:], "+-")
		if power = digits(after); power > 0 {
			if len(strings.TrimLeft(after[:power], "0")) > maxExponent && power == len(after) {
				return &CostlyError{text, fmt.Sprintf("an exponent of more than %d digits", maxExponent)}
			}
			rest = after[power:]
		}
	}
	if strings.Trim(rest, "eEinumkKMGTP") == "" && max(whole, fraction, power) > maxDigits {
		return &CostlyError{text, fmt.Sprintf("more than %d digits", maxDigits)}
	}
	return nil
}

// digits returns how many digits a text begins with.
func digits(text string) int {
	for i := range len(text) {
		if text[i]-'0' > 9 {
			return i
		}
	}
	return len(text)
}
