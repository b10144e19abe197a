/** The entry of a map. */

import { adapter } from "./adapter";
import { createMap } from "./map";

export default adapter(createMap);
