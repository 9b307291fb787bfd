package resource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
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

func label(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
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
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path, ""))
	}
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DriverNameMaxLength))
	}
	return append(errs, invalid(name, validation.IsDNS1123Subdomain(strings.ToLower(name)), path)...)
}

func pool(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(name) > resourcev1.PoolNameMaxLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.PoolNameMaxLength)}
	}
	var errs field.ErrorList
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, invalid(part, validation.IsDNS1123Subdomain(part), path)...)
	}
	return errs
}

// configuration checks the configuration for a driver.
func configuration(c *resourcev1.DeviceConfiguration, path *field.Path) field.ErrorList {
	path = path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return append(driver(c.Opaque.Driver, path.Child("driver")), parameters(c.Opaque.Parameters, path.Child("parameters"))...)
}

func parameters(p runtime.RawExtension, path *field.Path) field.ErrorList {
	if len(p.Raw) > resourcev1.OpaqueParametersMaxLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.OpaqueParametersMaxLength)}
	}
	if len(p.Raw) == 0 {
		return field.ErrorList{field.Required(path, "")}
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

func selector(s *resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
	path = path.Child("cel")
	if s.CEL == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path.Child("expression"), "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	return nil
}

func effects() []resourcev1.DeviceTaintEffect {
	return []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}
}

func effect(e resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	if slices.Contains(effects(), e) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, e, effects())}
}

func taint(t *resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	errs = append(errs, invalid(t.Value, validation.IsValidLabelValue(t.Value), path.Child("value"))...)
	if t.Effect == "" {
		return append(errs, field.Required(path.Child("effect"), ""))
	}
	return append(errs, effect(t.Effect, path.Child("effect"))...)
}
