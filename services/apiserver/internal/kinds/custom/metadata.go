package custom

import "time"

// plainMetadata reports whether an object has metadata as every stored object has it, complete and of the
// right types: to decode it as ObjectMeta and to encode it again would change nothing. That is so for almost
// all that etcd holds, and takes a fraction of the time.
func plainMetadata(object map[string]any) bool {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || metadata["creationTimestamp"] == nil || metadata["generation"] == nil {
		return false
	}
	for name, value := range metadata {
		if !plainField(name, value) {
			return false
		}
	}
	return true
}

// plainField reports whether a field of the metadata is known, not empty and of its type.
func plainField(name string, value any) bool {
	switch name {
	case "name", "generateName", "namespace", "uid", "resourceVersion", "selfLink":
		return isText(value)
	case "creationTimestamp", "deletionTimestamp":
		return isTime(value)
	case "generation":
		number, ok := value.(int64)
		return ok && number > 0
	case "labels", "annotations":
		texts, ok := value.(map[string]any)
		for _, text := range texts {
			if _, is := text.(string); !is {
				return false
			}
		}
		return ok && len(texts) > 0
	case "finalizers":
		return each(value, func(one any) bool {
			_, ok := one.(string)
			return ok
		})
	case "ownerReferences":
		return each(value, plainOwner)
	case "managedFields":
		return each(value, plainManager)
	}
	return false
}

// plainOwner reports whether a value is a complete owner reference.
func plainOwner(value any) bool {
	owner, ok := value.(map[string]any)
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, is := owner[name].(string); !is {
			return false
		}
	}
	known := 4
	for _, name := range []string{"controller", "blockOwnerDeletion"} {
		if flag, has := owner[name]; has {
			known++
			if _, is := flag.(bool); !is {
				return false
			}
		}
	}
	return ok && len(owner) == known
}

// plainManager reports whether a value is an entry of the managed fields.
func plainManager(value any) bool {
	manager, ok := value.(map[string]any)
	for name, value := range manager {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = ok && isText(value)
		case "time":
			ok = ok && isTime(value)
		case "fieldsV1":
			ok = ok && onlyMaps(value)
		default:
			return false
		}
	}
	return ok && len(manager) > 0
}

// onlyMaps reports whether a value consists of maps, as sets of fields do.
func onlyMaps(value any) bool {
	parts, ok := value.(map[string]any)
	for _, part := range parts {
		if !onlyMaps(part) {
			return false
		}
	}
	return ok
}

// each reports whether a value is a list with elements that are all right.
func each(value any, right func(any) bool) bool {
	list, ok := value.([]any)
	for _, one := range list {
		if !right(one) {
			return false
		}
	}
	return ok && len(list) > 0
}

func isText(value any) bool {
	text, ok := value.(string)
	return ok && text != ""
}

// isTime reports whether a value is a time as Kubernetes writes it: whole seconds in UTC, from the year 1 on.
func isTime(value any) bool {
	text, ok := value.(string)
	if !ok || len(text) != len("2006-01-02T15:04:05Z") || text[len(text)-1] != 'Z' {
		return false
	}
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && !at.IsZero() && at.Nanosecond() == 0
}
