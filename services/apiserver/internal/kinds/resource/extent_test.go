package resource

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// selecting returns a selector with a regular expression of about as many instructions.
func selecting(instructions int) resourcev1.DeviceSelector {
	expression := fmt.Sprintf("device.driver.matches('%s')", strings.Repeat("(a{1000})", instructions/1000))
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}
}

// TestExtentOfSelectors checks that the regular expressions of all selectors of an object are bounded, and that
// what is stored already stays valid.
func TestExtentOfSelectors(t *testing.T) {
	const want = "Invalid value: the regular expressions of all expressions must not compile to more than 200000 instructions together"
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{selecting(90_000), selecting(90_000)}
	errortest.Exactly(t, validateClass(class))
	larger := class.DeepCopy()
	larger.Spec.Selectors = append(larger.Spec.Selectors, selecting(90_000))
	errortest.Exactly(t, validateClass(larger), "spec.selectors: "+want)
	errortest.Exactly(t, validateClassUpdate(larger, class), "spec.selectors: "+want)
	relabelled := larger.DeepCopy()
	relabelled.Labels = map[string]string{"a": "b"}
	errortest.Exactly(t, validateClassUpdate(relabelled, larger))

	requests := func(n int) (all []resourcev1.DeviceRequest) {
		for i := range n {
			selectors := []resourcev1.DeviceSelector{selecting(90_000)}
			one := resourcev1.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
			if i == 0 {
				one.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: "c", AllocationMode: "ExactCount", Count: 1, Selectors: selectors}
			} else {
				one.FirstAvailable = []resourcev1.DeviceSubRequest{{Name: "s", DeviceClassName: "c", AllocationMode: "ExactCount", Count: 1, Selectors: selectors}}
			}
			all = append(all, one)
		}
		return all
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "n"}}
	for _, n := range []int{2, 3} {
		claim.Spec.Devices.Requests, template.Spec.Spec.Devices.Requests = requests(n), requests(n)
		var ofClaim, ofTemplate []string
		if n == 3 {
			ofClaim, ofTemplate = []string{"spec.devices.requests: " + want}, []string{"spec.spec.devices.requests: " + want}
		}
		errortest.Exactly(t, validateClaim(claim), ofClaim...)
		errortest.Exactly(t, validateClaimTemplate(template), ofTemplate...)
	}
	changed := template.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	errortest.Exactly(t, validateClaimTemplateUpdate(changed, template))

	class.Spec.Selectors = slices.Repeat([]resourcev1.DeviceSelector{{}}, 2)
	class.Spec.Selectors[1].CEL = &resourcev1.CELDeviceSelector{Expression: strings.Repeat("x", resourcev1.CELSelectorExpressionMaxLength+1)}
	errortest.Exactly(t, validateClass(class), "spec.selectors[0].cel: Required value", "spec.selectors[1].cel.expression: Too long: may not be more than 10240 bytes")
}
