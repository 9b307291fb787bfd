package resource

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func newClaim() *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: 1}},
		{Name: "two", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "big", DeviceClassName: "gpu", AllocationMode: "All"}}},
	}
	return c
}

func opaque(parameters string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
}

func TestClaim(t *testing.T) {
	oddLabel := validation.IsDNS1123Label("")[0]
	const noRequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	for name, tc := range map[string]struct {
		change func(d *resourcev1.DeviceClaim, first *resourcev1.ExactDeviceRequest)
		want   []string
	}{
		"good": {func(d *resourcev1.DeviceClaim, first *resourcev1.ExactDeviceRequest) {
			first.Tolerations = []resourcev1.DeviceToleration{{Operator: "Exists"}, {Key: "a", Operator: "Equal", Value: "b", Effect: "None"}}
			first.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}}
			d.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"one", "two", "two/big"}, MatchAttribute: new(resourcev1.FullyQualifiedName("example.com/model"))}}
			d.Config = []resourcev1.DeviceClaimConfiguration{{Requests: []string{"one"}, DeviceConfiguration: opaque("{}")}}
		}, nil},
		"names": {func(d *resourcev1.DeviceClaim, _ *resourcev1.ExactDeviceRequest) {
			d.Requests[0].Name, d.Requests[1].FirstAvailable[0].Name = "", "two"
			d.Requests[1].Name = ""
		}, []string{`spec.devices.requests[0].name: Invalid value: "": ` + oddLabel, `spec.devices.requests[1].name: Invalid value: "": ` + oddLabel, `spec.devices.requests[1]: Duplicate value: ""`}},
		"neither": {func(d *resourcev1.DeviceClaim, _ *resourcev1.ExactDeviceRequest) { d.Requests[0].Exactly = nil },
			[]string{"spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"}},
		"both": {func(d *resourcev1.DeviceClaim, _ *resourcev1.ExactDeviceRequest) {
			d.Requests[0].FirstAvailable = d.Requests[1].FirstAvailable
		}, []string{"spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"}},
		"counts": {func(d *resourcev1.DeviceClaim, first *resourcev1.ExactDeviceRequest) {
			first.Count, d.Requests[1].FirstAvailable[0].Count = 0, 2
		}, []string{
			"spec.devices.requests[0].exactly.count: Invalid value: 0: must be greater than zero",
			"spec.devices.requests[1].firstAvailable[0].count: Invalid value: 2: must not be specified when allocationMode is 'All'",
		}},
		"demands": {func(_ *resourcev1.DeviceClaim, first *resourcev1.ExactDeviceRequest) {
			first.DeviceClassName, first.AllocationMode = "", "Some"
			first.Selectors = []resourcev1.DeviceSelector{{}, {CEL: &resourcev1.CELDeviceSelector{Expression: strings.Repeat("x", 10241)}}}
		}, []string{
			"spec.devices.requests[0].exactly.deviceClassName: Required value",
			"spec.devices.requests[0].exactly.selectors[0].cel: Required value",
			"spec.devices.requests[0].exactly.selectors[1].cel.expression: Too long: may not be more than 10240 bytes",
			`spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`,
		}},
		"tolerations": {func(_ *resourcev1.DeviceClaim, first *resourcev1.ExactDeviceRequest) {
			first.Tolerations = []resourcev1.DeviceToleration{{Operator: "Exists", Value: "v"}, {}, {Operator: "Like", Effect: "Later"}}
		}, []string{
			"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
			"spec.devices.requests[0].exactly.tolerations[1].operator: Required value",
			`spec.devices.requests[0].exactly.tolerations[2].operator: Unsupported value: "Like": supported values: "Equal", "Exists"`,
			`spec.devices.requests[0].exactly.tolerations[2].effect: Unsupported value: "Later": supported values: "NoExecute", "NoSchedule", "None"`,
		}},
		"references": {func(d *resourcev1.DeviceClaim, _ *resourcev1.ExactDeviceRequest) {
			d.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"three", "one/big", "a/B/c", "one", "one"}, MatchAttribute: new(resourcev1.FullyQualifiedName("example.com/model"))}}
		}, []string{
			`spec.devices.constraints[0].requests[0]: Invalid value: "three": ` + noRequest,
			`spec.devices.constraints[0].requests[1]: Invalid value: "one/big": ` + noRequest,
			`spec.devices.constraints[0].requests[2]: Invalid value: "a/B/c": ` + noRequest,
			`spec.devices.constraints[0].requests[4]: Duplicate value: "one"`,
		}},
		"configuration": {func(d *resourcev1.DeviceClaim, _ *resourcev1.ExactDeviceRequest) {
			for _, p := range []string{"", "null", "3", "{"} {
				d.Config = append(d.Config, resourcev1.DeviceClaimConfiguration{DeviceConfiguration: opaque(p)})
			}
			d.Config = append(d.Config, resourcev1.DeviceClaimConfiguration{})
		}, []string{
			"spec.devices.config[0].opaque.parameters: Required value",
			"spec.devices.config[1].opaque.parameters: Required value",
			`spec.devices.config[2].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
			`spec.devices.config[3].opaque.parameters: Invalid value: "<value omitted>": error parsing data as JSON: unexpected end of JSON input`,
			"spec.devices.config[4].opaque: Required value",
		}},
		"long class": {func(d *resourcev1.DeviceClaim, e *resourcev1.ExactDeviceRequest) {
			e.DeviceClassName, d.Requests[1].FirstAvailable[0].DeviceClassName = strings.Repeat("a", 254), strings.Repeat("a", 254)
		}, []string{
			`spec.devices.requests[0].exactly.deviceClassName: Invalid value: "` + strings.Repeat("a", 254) + `": must be no more than 253 characters`,
			`spec.devices.requests[1].firstAvailable[0].deviceClassName: Invalid value: "` + strings.Repeat("a", 254) + `": must be no more than 253 bytes`,
		}},
		"too many": {func(d *resourcev1.DeviceClaim, _ *resourcev1.ExactDeviceRequest) {
			d.Requests = make([]resourcev1.DeviceRequest, 33)
		}, []string{"spec.devices.requests: Too many: 33: must have at most 32 items"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaim()
			tc.change(&c.Spec.Devices, c.Spec.Devices.Requests[0].Exactly)
			errortest.Exactly(t, validateClaim(c), tc.want...)
			template := &resourcev1.ResourceClaimTemplate{ObjectMeta: c.ObjectMeta}
			template.Spec.Spec = c.Spec
			var want []string
			for _, w := range tc.want {
				want = append(want, "spec."+w)
			}
			errortest.Exactly(t, validateClaimTemplate(template), want...)
		})
	}
}

func TestClaimsStay(t *testing.T) {
	old, c := newClaim(), newClaim()
	errortest.Exactly(t, validateClaimUpdate(c, old))
	c.Spec.Devices.Requests = c.Spec.Devices.Requests[:1]
	errortest.Contain(t, validateClaimUpdate(c, old), "field is immutable")
	was := &resourcev1.ResourceClaimTemplate{ObjectMeta: c.ObjectMeta}
	template := was.DeepCopy()
	errortest.Exactly(t, validateClaimTemplateUpdate(template, was))
	template.Spec.Labels = map[string]string{"a": "b"}
	errortest.Contain(t, validateClaimTemplateUpdate(template, was), "field is immutable")
}

func TestClaimStatus(t *testing.T) {
	user := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: "1"}
	other := user
	other.UID = "2"
	allocation := func(device string) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "two/big", Driver: "gpu.example.com", Pool: "node/a", Device: device},
		}}}
	}
	old, c := newClaim(), newClaim()
	c.Status = resourcev1.ResourceClaimStatus{Allocation: allocation("d"), ReservedFor: []resourcev1.ResourceClaimConsumerReference{user}}
	errortest.Exactly(t, validateClaimStatus(c, old))
	c.Status.Allocation.Devices.Results[0] = resourcev1.DeviceRequestAllocationResult{Request: "one", Driver: "x"}
	errortest.Exactly(t, validateClaimStatus(c, old), "status.allocation.devices.results[0].pool: Required value", "status.allocation.devices.results[0].device: Invalid value: \"\": "+validation.IsDNS1123Label("")[0])
	old.Status.Allocation, c.Status.Allocation = allocation("d"), allocation("e")
	errortest.Contain(t, validateClaimStatus(c, old), "field is immutable")
	c.Status.Allocation = nil
	errortest.Exactly(t, validateClaimStatus(c, old), "status.reservedFor: Forbidden: may not be specified when `allocated` is not set")
	c.Status = resourcev1.ResourceClaimStatus{Allocation: allocation("d"), ReservedFor: []resourcev1.ResourceClaimConsumerReference{user, other}}
	old.Status = resourcev1.ResourceClaimStatus{Allocation: allocation("d"), ReservedFor: []resourcev1.ResourceClaimConsumerReference{user}}
	errortest.Exactly(t, validateClaimStatus(c, old))
	c.DeletionTimestamp = &metav1.Time{}
	errortest.Exactly(t, validateClaimStatus(c, old), "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
	c.DeletionTimestamp = nil
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{user, user, {}}
	errortest.Exactly(t, validateClaimStatus(c, old), "status.reservedFor[2].resource: Required value", "status.reservedFor[2].name: Required value",
		"status.reservedFor[2].uid: Required value", `status.reservedFor[1]: Duplicate value: "1"`)
}
