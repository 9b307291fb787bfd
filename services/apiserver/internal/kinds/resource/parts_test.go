package resource

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestPool(t *testing.T) {
	at := field.NewPath("pool")
	errortest.Exactly(t, pool("node-1/gpu.example.com", at))
	errortest.Exactly(t, pool(strings.Repeat("p", 253), at))
	errortest.Contain(t, pool(strings.Repeat("p", 254), at), "pool: Too long: may not be more than 253 bytes", "must be no more than 253 characters")
	errortest.Contain(t, pool("a//b", at), `pool: Invalid value: ""`)
	errortest.Contain(t, pool("a/B", at), `pool: Invalid value: "B"`)
}

func TestConfiguration(t *testing.T) {
	at := field.NewPath("config")
	opaque := func(driver string, size int) *resourcev1.DeviceConfiguration {
		raw := []byte(`{"a":"` + strings.Repeat("x", size) + `"}`)
		return &resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: raw}}}
	}
	const around = len(`{"a":""}`)
	errortest.Exactly(t, configuration(opaque("gpu.example.com", 10<<10-around), false, at))
	errortest.Exactly(t, configuration(opaque("gpu.example.com", 10<<10-around+1), false, at), "config.opaque.parameters: Too long: may not be more than 10240 bytes")
	errortest.Exactly(t, configuration(opaque("gpu.example.com", 10<<10-around+1), true, at))
	errortest.Contain(t, configuration(opaque("gpu_example", 1), false, at), `config.opaque.driver: Invalid value: "gpu_example"`)
	errortest.Exactly(t, configuration(&resourcev1.DeviceConfiguration{}, false, at), "config.opaque: Required value")
}
