package resource

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

func TestCapacities(t *testing.T) {
	for name, tc := range map[string]struct {
		shared bool
		policy resourcev1.CapacityRequestPolicy
		want   []string
	}{
		"none":       {true, resourcev1.CapacityRequestPolicy{}, nil},
		"not shared": {false, resourcev1.CapacityRequestPolicy{}, []string{"capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true"}},
		"both": {true, resourcev1.CapacityRequestPolicy{ValidValues: []resource.Quantity{*quantity("1")}, ValidRange: &resourcev1.CapacityRequestPolicyRange{}}, []string{
			`capacity[memory].requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`,
		}},
		"amounts": {true, resourcev1.CapacityRequestPolicy{Default: quantity("1"), ValidValues: []resource.Quantity{*quantity("1"), *quantity("2")}}, nil},
		"amounts without a default": {true, resourcev1.CapacityRequestPolicy{ValidValues: []resource.Quantity{*quantity("1")}}, []string{
			"capacity[memory].requestPolicy.default: Required value: required when validValues is defined",
		}},
		"bad amounts": {true, resourcev1.CapacityRequestPolicy{Default: quantity("3"), ValidValues: []resource.Quantity{*quantity("20"), *quantity("1"), *quantity("1")}}, []string{
			`capacity[memory].requestPolicy.validValues[1]: Invalid value: "1": values must be sorted in ascending order`,
			`capacity[memory].requestPolicy.validValues[0]: Invalid value: "20": option is larger than capacity value: 10`,
			`capacity[memory].requestPolicy.validValues[2]: Duplicate value: "1"`,
			`capacity[memory].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy`,
		}},
		"range": {true, resourcev1.CapacityRequestPolicy{Default: quantity("4"), ValidRange: &resourcev1.CapacityRequestPolicyRange{
			Min: quantity("2"), Max: quantity("8"), Step: quantity("2"),
		}}, nil},
		"range without a default": {true, resourcev1.CapacityRequestPolicy{ValidRange: &resourcev1.CapacityRequestPolicyRange{}}, []string{
			"capacity[memory].requestPolicy.default: Required value: required when validRange is defined",
		}},
		"range without a minimum": {true, resourcev1.CapacityRequestPolicy{Default: quantity("4"), ValidRange: &resourcev1.CapacityRequestPolicyRange{}}, []string{
			"capacity[memory].requestPolicy.validRange.min: Required value: required when validRange is defined",
		}},
		"bad range": {true, resourcev1.CapacityRequestPolicy{Default: quantity("30"), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: quantity("40"), Max: quantity("20"), Step: quantity("0")}}, []string{
			`capacity[memory].requestPolicy.validRange.min: Invalid value: "40": min is larger than capacity value: 10`,
			`capacity[memory].requestPolicy.validRange.default: Invalid value: "30": default is less than min: 40`,
			`capacity[memory].requestPolicy.validRange.max: Invalid value: "40": min is larger than max: 20`,
			`capacity[memory].requestPolicy.validRange.max: Invalid value: "20": max is larger than capacity value: 10`,
			`capacity[memory].requestPolicy.validRange.default: Invalid value: "30": default is more than max: 20`,
			`capacity[memory].requestPolicy.validRange.step: Invalid value: "0": must be greater than zero`,
		}},
		"odd steps": {true, resourcev1.CapacityRequestPolicy{Default: quantity("5"), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: quantity("2"), Max: quantity("7"), Step: quantity("9")}}, []string{
			`capacity[memory].requestPolicy.validRange.step: Invalid value: "9": one step 11 is larger than capacity value: 10`,
			`capacity[memory].requestPolicy.validRange.step: Invalid value: "5": value is not a multiple of a given step (9) from (2)`,
			`capacity[memory].requestPolicy.validRange.step: Invalid value: "7": value is not a multiple of a given step (9) from (2)`,
		}},
		"beyond numbers": {true, resourcev1.CapacityRequestPolicy{Default: quantity("-1"), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: quantity("-2"), Step: quantity("18446744073709551616")}}, []string{
			`capacity[memory].requestPolicy.validRange.step: Invalid value: "18446744073709551616": one step 18446744073709551614 is larger than capacity value: 10`,
			`capacity[memory].requestPolicy.validRange.default: Invalid value: "-1": must be greater than or equal to 0`,
			`capacity[memory].requestPolicy.validRange.min: Invalid value: "-2": must be greater than or equal to 0`,
			`capacity[memory].requestPolicy.validRange.step: Invalid value: "18446744073709551616": must not be larger than 9223372036854775807`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &resourcev1.Device{AllowMultipleAllocations: &tc.shared, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: *quantity("10"), RequestPolicy: &tc.policy},
			}}
			errortest.Exactly(t, capacities(d, field.NewPath("capacity")), tc.want...)
		})
	}
}
