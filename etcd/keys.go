package etcd

import "github.com/anylock/lock/backend"

// naming makes etcd's keys. All contenders for a key live below one prefix, each under its owner:
//
//	<namespace>/~<key, escaped>/<owner, escaped>
//
// The ~ keeps a key apart from a longer namespace, whose parts must not begin with it; escaping keeps the key a apart from
// the key a/b.
type naming struct{ namespace string }

const nameMark = "~"

var encoding = backend.Encoding{Extra: "."}

// ownerEncoding leaves an owner as backend.NewOwner makes it readable.
var ownerEncoding = backend.Encoding{Extra: ".@:"}

// prefix is what all owners of key have in common, and nobody else.
func (n naming) prefix(key string) string {
	return n.namespace + "/" + nameMark + encoding.Encode(key) + "/"
}

func (n naming) own(key, owner string) string {
	return n.prefix(key) + ownerEncoding.Encode(owner)
}
