package scheme

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// storageRows are the kinds of volumes and devices.
func storageRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
			Resource:         "persistentvolumes", Singular: "persistentvolume", ShortNames: []string{"pv"},
			Subresources: []Subresource{status()}, StoragePrefix: "persistentvolumes",
			newObject: func() Object { return &corev1.PersistentVolume{} },
			newList:   func() runtime.Object { return &corev1.PersistentVolumeList{} },
		},
		{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
			Resource:         "csidrivers", Singular: "csidriver",
			StoragePrefix: "csidrivers",
			newObject:     func() Object { return &storagev1.CSIDriver{} },
			newList:       func() runtime.Object { return &storagev1.CSIDriverList{} },
		},
		{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind("CSINode"),
			Resource:         "csinodes", Singular: "csinode",
			StoragePrefix: "csinodes",
			newObject:     func() Object { return &storagev1.CSINode{} },
			newList:       func() runtime.Object { return &storagev1.CSINodeList{} },
		},
		{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
			Resource:         "csistoragecapacities", Singular: "csistoragecapacity",
			Namespaced: true, StoragePrefix: "csistoragecapacities",
			newObject: func() Object { return &storagev1.CSIStorageCapacity{} },
			newList:   func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
		},
		{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
			Resource:         "volumeattachments", Singular: "volumeattachment",
			Subresources: []Subresource{status()}, StoragePrefix: "volumeattachments",
			newObject: func() Object { return &storagev1.VolumeAttachment{} },
			newList:   func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
		},
		{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
			Resource:         "volumeattributesclasses", Singular: "volumeattributesclass", ShortNames: []string{"vac"},
			StoragePrefix: "volumeattributesclasses",
			newObject:     func() Object { return &storagev1.VolumeAttributesClass{} },
			newList:       func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },
		},
		{
			GroupVersionKind: resourcev1.SchemeGroupVersion.WithKind("DeviceClass"),
			Resource:         "deviceclasses", Singular: "deviceclass",
			StoragePrefix: "deviceclasses",
			newObject:     func() Object { return &resourcev1.DeviceClass{} },
			newList:       func() runtime.Object { return &resourcev1.DeviceClassList{} },
		},
		{
			GroupVersionKind: resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"),
			Resource:         "devicetaintrules", Singular: "devicetaintrule",
			Subresources: []Subresource{status()}, StoragePrefix: "devicetaintrules",
			older:     "v1beta2",
			newObject: func() Object { return &resourcev1.DeviceTaintRule{} },
			newList:   func() runtime.Object { return &resourcev1.DeviceTaintRuleList{} },
		},
		{
			GroupVersionKind: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"),
			Resource:         "resourceclaims", Singular: "resourceclaim",
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "resourceclaims",
			newObject: func() Object { return &resourcev1.ResourceClaim{} },
			newList:   func() runtime.Object { return &resourcev1.ResourceClaimList{} },
		},
		{
			GroupVersionKind: resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
			Resource:         "resourceclaimtemplates", Singular: "resourceclaimtemplate",
			Namespaced: true, StoragePrefix: "resourceclaimtemplates",
			newObject: func() Object { return &resourcev1.ResourceClaimTemplate{} },
			newList:   func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} },
		},
		{
			GroupVersionKind: resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"),
			Resource:         "resourceslices", Singular: "resourceslice",
			StoragePrefix: "resourceslices",
			newObject:     func() Object { return &resourcev1.ResourceSlice{} },
			newList:       func() runtime.Object { return &resourcev1.ResourceSliceList{} },
		},
	}
}
