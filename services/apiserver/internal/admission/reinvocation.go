package admission

// reinvocation is the state of a request whose plugins that mutate may run a second time, since one of
// them changed the object by rules of users: a later change may matter to an earlier plugin.
type reinvocation struct {
	wanted, second bool
	kept           map[string]any
}

// Reinvoke has all plugins that mutate run once more when each of them has run. Only the first of the
// two runs can ask for it.
func (r *Request) Reinvoke() { r.reinvocation.wanted = true }

// Reinvoked reports whether the plugins that mutate run for the second time.
func (r *Request) Reinvoked() bool { return r.reinvocation.second }

// Keep keeps a value that the plugin of a name needs when it runs for the second time. Kept returns
// it; nil if there is none.
func (r *Request) Keep(plugin string, value any) {
	if r.reinvocation.kept == nil {
		r.reinvocation.kept = map[string]any{}
	}
	r.reinvocation.kept[plugin] = value
}

// Kept returns the value that the plugin of a name has kept; nil if there is none.
func (r *Request) Kept(plugin string) any { return r.reinvocation.kept[plugin] }
