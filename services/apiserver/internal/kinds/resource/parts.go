package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// each checks every item of a list of at most most items; a negative most means no limit.
func each[T any](list []T, most int, path *field.Path, check func(*T, *field.Path) field.ErrorList) field.ErrorList {
	if most >= 0 && len(list) > most {
		return field.ErrorList{field.TooMany(path, len(list), most)}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, check(&list[i], path.Index(i))...)
	}
	return errs
}

// set checks a list like each, and also that no two items have the same key.
func set[T any, K comparable](list []T, most int, path *field.Path, key func(*T) K, check func(*T, *field.Path) field.ErrorList) field.ErrorList {
	errs := each(list, most, path, check)
	if most >= 0 && len(list) > most {
		return errs
	}
	seen := map[K]bool{}
	for i := range list {
		k := key(&list[i])
		if seen[k] {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		}
		seen[k] = true
	}
	return errs
}

// rule is a rule that Kubernetes declares in the types of its API, instead of writing it by hand.
type rule func(ctx context.Context, op operation.Operation, path *field.Path, value, old *string) field.ErrorList

// declared checks a value by a declared rule.
func declared(value string, path *field.Path, check rule) field.ErrorList {
	return check(context.Background(), operation.Operation{}, path, &value, nil)
}

// required checks that a value is there, and if so, checks it by declared rules.
func required(value string, path *field.Path, checks ...rule) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, check := range checks {
		errs = append(errs, declared(value, path, check)...)
	}
	return errs
}

// known checks that a value is one of those allowed.
func known[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func label(name string, path *field.Path) field.ErrorList {
	return invalid(name, validation.IsDNS1123Label(name), path)
}

func invalid(value string, msgs []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func driver(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DriverNameMaxLength))
	}
	return append(errs, invalid(name, validation.IsDNS1123Subdomain(strings.ToLower(name)), path)...)
}

// chosenDriver checks the name of a driver where another object chooses it, which has rules of its own.
func chosenDriver(name string, path *field.Path) field.ErrorList {
	caseless := validate.LongNameCaseless[string] //nolint:staticcheck // Names of drivers may still have upper case.
	return required(name, path, caseless, func(ctx context.Context, op operation.Operation, path *field.Path, value, old *string) field.ErrorList {
		return validate.MaxLength(ctx, op, path, value, old, resourcev1.DriverNameMaxLength)
	})
}

func pool(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, invalid(part, validation.IsDNS1123Subdomain(part), path)...)
	}
	return errs
}

// configuration checks the configuration for a driver; old reports whether it has not changed, so that an
// earlier limit may have allowed it.
func configuration(c *resourcev1.DeviceConfiguration, old bool, path *field.Path) field.ErrorList {
	path = path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	most := resourcev1.OpaqueParametersMaxLength
	if old {
		most = len(c.Opaque.Parameters.Raw)
	}
	return append(chosenDriver(c.Opaque.Driver, path.Child("driver")), document(c.Opaque.Parameters, most, path.Child("parameters"))...)
}

// document checks that a value is a JSON object of at most most bytes.
func document(p runtime.RawExtension, most int, path *field.Path) field.ErrorList {
	if len(p.Raw) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(p.Raw) > most {
		return field.ErrorList{field.TooLong(path, "", most)}
	}
	var value any
	if err := json.Unmarshal(p.Raw, &value); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if _, ok := value.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}

// selector checks an expression that selects devices; old reports whether it has not changed.
func selector(s *resourcev1.DeviceSelector, old bool, path *field.Path) field.ErrorList {
	path = path.Child("cel")
	if s.CEL == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if !old && len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path.Child("expression"), "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	return nil
}

func effect(e resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	return known(e, path, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
}

// taint checks a taint; was is its effect before an update, which may stay.
func taint(t *resourcev1.DeviceTaint, was resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	errs = append(errs, invalid(t.Value, validation.IsValidLabelValue(t.Value), path.Child("value"))...)
	switch t.Effect {
	case "":
		return append(errs, field.Required(path.Child("effect"), ""))
	case was:
		return errs
	}
	return append(errs, effect(t.Effect, path.Child("effect"))...)
}

// bindings checks the conditions on which a device is bound to a pod, or fails to be.
func bindings(conditions, failures []string, path *field.Path) field.ErrorList {
	name := func(s *string, path *field.Path) field.ErrorList { return metav1validation.ValidateLabelName(*s, path) }
	good, bad := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	errs := each(conditions, resourcev1.BindingConditionsMaxSize, good, name)
	errs = append(errs, each(failures, resourcev1.BindingFailureConditionsMaxSize, bad, name)...)
	for i, condition := range conditions {
		if slices.Contains(conditions[:i], condition) {
			errs = append(errs, field.Duplicate(good.Index(i), condition))
		}
	}
	for i, condition := range failures {
		if slices.Contains(failures[:i], condition) {
			errs = append(errs, field.Duplicate(bad.Index(i), condition))
		}
		if slices.Contains(conditions, condition) {
			errs = append(errs, field.Invalid(bad.Index(i), condition, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		errs = append(errs, field.Invalid(good, conditions, "bindingConditions are required to use bindingFailureConditions"))
	case len(failures) == 0 && len(conditions) > 0:
		errs = append(errs, field.Invalid(bad, failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
