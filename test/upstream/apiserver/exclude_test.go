package upstream

import (
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// later returns the types that nothing changes yet, because later issues bring their rules. Each issue
// removes its own.
func later() []reflect.Type {
	return []reflect.Type{
		// Extension: expressions of policies and webhooks are compiled.
		reflect.TypeFor[admissionregistrationv1.MatchCondition](),
		reflect.TypeFor[admissionregistrationv1.Validation](),
		reflect.TypeFor[admissionregistrationv1.Variable](),
		reflect.TypeFor[admissionregistrationv1.Mutation](),
		reflect.TypeFor[admissionregistrationv1.AuditAnnotation](),
		// Devices: expressions that select them are compiled.
		reflect.TypeFor[resourcev1.DeviceSelector](),
	}
}
