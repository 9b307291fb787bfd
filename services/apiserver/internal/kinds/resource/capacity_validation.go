package resource

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// capacities checks the capacities of a device. Only one that several claims share has rules for how much
// each may consume.
func capacities(d *resourcev1.Device, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	shares := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		errs = append(errs, qualifiedName(string(name), path)...)
		c := d.Capacity[name]
		if c.RequestPolicy == nil {
			continue
		}
		at := path.Key(shown(string(name))).Child("requestPolicy")
		if !shares {
			errs = append(errs, field.Forbidden(at, "allowMultipleAllocations must be true"))
			continue
		}
		errs = append(errs, requestPolicy(c.Value, c.RequestPolicy, at)...)
	}
	return errs
}

// requestPolicy checks how much of a capacity a claim may consume.
func requestPolicy(whole resource.Quantity, p *resourcev1.CapacityRequestPolicy, path *field.Path) field.ErrorList {
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0:
		if p.Default == nil {
			return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
		}
		return validAmounts(*p.Default, whole, p.ValidValues, path.Child("validValues"))
	case p.ValidRange != nil:
		if p.Default == nil {
			return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
		}
		return validRange(*p.Default, whole, p.ValidRange, path.Child("validRange"))
	}
	return nil
}

// validAmounts checks the amounts that a claim may consume, of which one is the default.
func validAmounts(preset, whole resource.Quantity, amounts []resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(amounts); i++ {
		if amounts[i-1].Cmp(amounts[i]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), amounts[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, set(amounts, maxAmounts, path, func(q *resource.Quantity) string { return strconv.FormatInt(q.Value(), 10) },
		func(q *resource.Quantity, path *field.Path) field.ErrorList {
			found = found || q.Cmp(preset) == 0
			if q.Cmp(whole) > 0 {
				return field.ErrorList{field.Invalid(path, q.String(), "option is larger than capacity value: "+whole.String())}
			}
			return nil
		})...)
	if !found {
		errs = append(errs, field.Invalid(path, preset.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

// maxAmounts bounds the amounts of which a claim may consume one.
const maxAmounts = 10

// validRange checks the range of amounts that a claim may consume.
func validRange(preset, whole resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, path *field.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(path.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	refuse := func(wrong bool, name string, value *resource.Quantity, format string, than *resource.Quantity) {
		if wrong {
			errs = append(errs, field.Invalid(path.Child(name), value.String(), fmt.Sprintf(format, than)))
		}
	}
	refuse(r.Min.Cmp(whole) > 0, "min", r.Min, "min is larger than capacity value: %s", &whole)
	refuse(preset.Cmp(*r.Min) < 0, "default", &preset, "default is less than min: %s", r.Min)
	if r.Max != nil {
		refuse(r.Min.Cmp(*r.Max) > 0, "max", r.Min, "min is larger than max: %s", r.Max)
		refuse(r.Max.Cmp(whole) > 0, "max", r.Max, "max is larger than capacity value: %s", &whole)
		refuse(preset.Cmp(*r.Max) > 0, "default", &preset, "default is more than max: %s", r.Max)
	}
	if r.Step == nil {
		return errs
	}
	return append(errs, steps(preset, whole, r, path)...)
}

// steps checks that the default and the maximum of a range are whole steps above its minimum.
func steps(preset, whole resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, path *field.Path) field.ErrorList {
	at := path.Child("step")
	if r.Step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, r.Step.String(), "must be greater than zero")}
	}
	var errs field.ErrorList
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(whole) > 0 {
		errs = append(errs, field.Invalid(at, r.Step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), whole.String())))
	}
	var unsafe field.ErrorList
	for _, bound := range []struct {
		name  string
		value *resource.Quantity
	}{{"default", &preset}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}} {
		switch {
		case bound.value == nil:
		case bound.value.Sign() < 0:
			unsafe = append(unsafe, field.Invalid(path.Child(bound.name), bound.value.String(), apivalidation.IsNegativeErrorMsg))
		case bound.value.CmpInt64(math.MaxInt64) > 0:
			unsafe = append(unsafe, field.Invalid(path.Child(bound.name), bound.value.String(), "must not be larger than 9223372036854775807"))
		}
	}
	if len(unsafe) > 0 {
		return append(errs, unsafe...) // Beyond these bounds, the numbers below are wrong.
	}
	for _, q := range []*resource.Quantity{&preset, r.Max} {
		if q != nil && (q.Value()-r.Min.Value())%r.Step.Value() != 0 {
			errs = append(errs, field.Invalid(at, q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step, r.Min)))
		}
	}
	return errs
}
