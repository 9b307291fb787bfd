package subject

// Rights lists the subjects at which a client may publish and subscribe. All others are forbidden.
type Rights struct{ Publish, Subscribe []string }

// RightsOf returns the rights that every identified client has: to ask, to receive answers, to
// answer requests for reports, and to hear which writes are traced.
func RightsOf(c Client) Rights {
	return Rights{
		Publish: []string{
			askRoot + c.tokens() + ".>", historyRoot + c.tokens() + ".>", c.API(), Who(c.Inbox), c.Report("*"),
			inboxRoot + "*." + from + "." + c.Inbox + ".>",
		},
		Subscribe: []string{inboxRoot + c.Inbox + ".>", reports, traces},
	}
}

// RightsToCall returns the rights of a client that may only send requests to the API and receive the
// answers.
func RightsToCall(c Client) Rights {
	return Rights{
		Publish:   []string{c.API(), Who(c.Inbox), inboxRoot + "*." + from + "." + c.Inbox + ".>"},
		Subscribe: []string{inboxRoot + c.Inbox + ".>"},
	}
}

// RightsOfNode returns the additional rights of a node agent: to serve the node's services.
func RightsOfNode(node string) Rights {
	return Rights{
		Publish:   []string{inboxRoot + "*." + from + "." + nodePeer + Token(node) + ".>"},
		Subscribe: []string{nodeRoot + Token(node) + ".>"},
	}
}
