package strategy

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/devices"
)

// The kinds of resource.k8s.io are generic: the expressions that select devices are not compiled,
// and the properties of devices are not checked.

func deviceClass() *kinds.Definition {
	return of[*resourcev1.DeviceClass]{
		Level:    kinds.Generic,
		Create:   func(c *resourcev1.DeviceClass) { c.Generation = 1 },
		Validate: devices.Class,
		Update: change[*resourcev1.DeviceClass]{
			Prepare: func(c, old *resourcev1.DeviceClass) {
				if !equality.Semantic.DeepEqual(c.Spec, old.Spec) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: func(c, _ *resourcev1.DeviceClass) field.ErrorList { return devices.Class(c) },
		},
	}.strategy()
}

func deviceTaintRule() *kinds.Definition {
	type rule = *resourcev1.DeviceTaintRule
	specStatus := specStatusOf(func(r rule) (*resourcev1.DeviceTaintRuleSpec, *resourcev1.DeviceTaintRuleStatus) {
		return &r.Spec, &r.Status
	})
	return of[rule]{
		Level:    kinds.Generic,
		Default:  defaults.DeviceTaintRule,
		Create:   specStatus.begin,
		Validate: devices.TaintRule,
		Update: change[rule]{
			Prepare: specStatus.keepStatus, Validate: func(r, _ rule) field.ErrorList { return devices.TaintRule(r) },
		},
		Subresources: map[string]change[rule]{"status": {
			Prepare:  func(r, old rule) { specStatus.keepSpec(r, old); keepMetadata(r, old) },
			Validate: devices.TaintRuleStatus,
		}},
	}.strategy()
}

func resourceClaim() *kinds.Definition {
	type claim = *resourcev1.ResourceClaim
	status := change[claim]{
		Prepare:  func(c, old claim) { c.Spec = *old.Spec.DeepCopy(); keepMetadata(c, old) },
		Validate: devices.ClaimStatus,
	}
	return of[claim]{
		Level:    kinds.Generic,
		Default:  defaults.ResourceClaim,
		Create:   func(c claim) { c.Status = resourcev1.ResourceClaimStatus{} },
		Validate: devices.Claim,
		Update: change[claim]{
			Prepare:  func(c, old claim) { c.Status = *old.Status.DeepCopy() },
			Validate: devices.ClaimUpdate,
		},
		Subresources: map[string]change[claim]{"status": status},
	}.strategy()
}

func resourceClaimTemplate() *kinds.Definition {
	return of[*resourcev1.ResourceClaimTemplate]{
		Level:    kinds.Generic,
		Default:  defaults.ResourceClaimTemplate,
		Validate: devices.ClaimTemplate,
		Update:   change[*resourcev1.ResourceClaimTemplate]{Validate: devices.ClaimTemplateUpdate},
	}.strategy()
}

func resourceSlice() *kinds.Definition {
	return of[*resourcev1.ResourceSlice]{
		Level:    kinds.Generic,
		Default:  defaults.ResourceSlice,
		Create:   func(s *resourcev1.ResourceSlice) { s.Generation = 1 },
		Validate: devices.Slice,
		Update: change[*resourcev1.ResourceSlice]{
			Prepare: func(s, old *resourcev1.ResourceSlice) {
				if !equality.Semantic.DeepEqual(s.Spec, old.Spec) {
					s.Generation = old.Generation + 1
				}
			},
			Validate: devices.SliceUpdate,
		},
		FieldLabels: []string{resourcev1.ResourceSliceSelectorNodeName, resourcev1.ResourceSliceSelectorDriver, resourcev1.ResourceSliceSelectorPoolName},
		Fields: func(s *resourcev1.ResourceSlice) fields.Set {
			node := ""
			if s.Spec.NodeName != nil {
				node = *s.Spec.NodeName
			}
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: node, resourcev1.ResourceSliceSelectorDriver: s.Spec.Driver,
				resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
			}
		},
	}.strategy()
}
